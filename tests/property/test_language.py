"""Laws of the nouns and of the exact evaluator."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lobra import codec
from lobra.plan import MicroBatch, StepPlan
from lobra.rates import Loads
from lobra.schedule import closed_form, one_forward_one_backward
from lobra.spec import SequenceRef
from policies.evaluate import count_seconds

sequences = st.builds(SequenceRef, st.integers(0, 5), st.integers(0, 2**40), st.integers(1, 99), st.integers(0, 99))
rows = st.lists(st.lists(sequences, min_size=1, max_size=4).map(tuple), min_size=1, max_size=3).map(tuple)
microbatches = st.builds(MicroBatch, rows, st.integers(400, 4000))


@given(
    st.builds(
        StepPlan, st.integers(0, 9), st.lists(st.lists(microbatches, max_size=3).map(tuple), min_size=1).map(tuple)
    )
)
def test_every_step_plan_survives_the_codec(step: StepPlan):
    assert codec.decode(codec.encode(step)) == step


@given(st.integers(1, 8), st.integers(0, 20))
def test_every_stage_runs_every_micro_batch_forward_before_backward(stages: int, number: int):
    for stage in range(stages):
        score = list(one_forward_one_backward(stage, stages, number))

        assert sorted(score) == sorted((kind, m) for kind in ("forward", "backward") for m in range(number))
        assert all(score.index(("forward", m)) < score.index(("backward", m)) for m in range(number))
        in_flight = np.cumsum([1 if kind == "forward" else -1 for kind, _ in score])
        assert max(in_flight, default=0) == min(stages - stage, number)


def brute_force(loads: Loads, counts: list[int]) -> float:
    """Micro-batch by micro-batch, as evenly as possible."""
    times = []
    for j, count in enumerate(counts):
        if count:
            number = -(-count // int(loads.capacity[j]))
            sizes = [count // number + (i < count % number) for i in range(number)]
            times += [max(loads.floor, loads.fixed[j] + loads.each[j] * size) for size in sizes]
    return closed_form(times, loads.stages)


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.floats(0, 3), st.floats(0, 3), st.integers(0, 20)), min_size=1, max_size=5
    ),
    st.floats(0, 4),
    st.integers(1, 4),
)
def test_the_vectorised_evaluator_equals_the_sum_over_micro_batches(
    buckets: list[tuple[int, float, float, int]], floor: float, stages: int
):
    capacity, fixed, each, counts = zip(*buckets, strict=True)
    loads = Loads(np.array(capacity), np.array(fixed), np.array(each), floor, stages)

    got = float(count_seconds(loads, np.array(counts)))

    assert np.isclose(got, brute_force(loads, list(counts)), rtol=1e-12, atol=1e-12)


@given(st.integers(1, 30), st.integers(1, 6), st.floats(0, 2), st.floats(0.01, 2), st.floats(0, 3), st.integers(1, 4))
def test_an_even_split_is_never_slower_than_full_micro_batches_and_a_rest(
    count: int, capacity: int, fixed: float, each: float, floor: float, stages: int
):
    loads = Loads(np.array([capacity]), np.array([fixed]), np.array([each]), floor, stages)
    sizes = [capacity] * (count // capacity) + ([count % capacity] if count % capacity else [])
    uneven = closed_form([max(floor, fixed + each * size) for size in sizes], stages)

    assert float(count_seconds(loads, np.array([count]))) <= uneven * (1 + 1e-12)


def test_a_count_that_does_not_fit_costs_infinity():
    loads = Loads(np.array([1, 0]), np.zeros(2), np.ones(2), 0.0, 1)

    assert count_seconds(loads, np.array([[1, 0], [0, 1]])).tolist() == [1.0, np.inf]
