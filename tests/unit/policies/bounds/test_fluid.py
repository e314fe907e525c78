"""The fluid: a bound, and a flow that adds up."""

from fractions import Fraction

import numpy as np
import pytest

from lobra.errors import Infeasible
from policies.bounds.fluid import fluid, fluid_bound, least_each, priced_fluid
from policies.bounds.latency import latency_bound
from policies.bounds.level import level_bound
from policies.solvers import highs
from unit.policies.dispatch.worlds import loads, plain_seconds


def test_two_equal_machines_halve_the_work():
    kind = loads([4], [1.0], [0.5])  # a full micro-batch of 4 takes 3: 0.75 a sequence

    assert fluid_bound([kind], [2], np.array([16])) == pytest.approx(16 * 0.75 / 2, rel=1e-6)


def test_the_flow_adds_up_and_goes_where_it_fits():
    small, large = loads([4, 0], [0.1, 0.1], [0.5, 2.0]), loads([8, 4], [0.1, 0.1], [0.2, 0.4])

    seconds, flow = fluid([small, large], [3, 1], np.array([40, 7]))

    assert flow.sum(axis=0) == pytest.approx([40, 7])
    assert flow[0, 1] == 0
    assert seconds == pytest.approx(max(flow[0, 0] * 0.525 / 3, flow[1] @ [0.2125, 0.425]), rel=1e-6)


def test_bubbles_load_a_kind_before_it_begins():
    kind = loads([1], [0.0], [1.0])

    seconds, flow = fluid([kind, kind], [1, 1], np.array([10]), np.array([0.0, 4.0]))

    assert (seconds, flow.tolist()) == (pytest.approx(7), [[pytest.approx(7)], [pytest.approx(3)]])


def test_buckets_without_a_choice_need_no_solver_and_get_its_answer():
    """A second kind that is hopelessly slow gives every bucket a choice, and changes nothing."""
    fast, wide = loads([4, 0], [0.1, 0.1], [0.5, 2.0]), loads([0, 4], [0.1, 0.1], [0.2, 0.4])
    hopeless, counts = loads([1, 1], [1e6, 1e6], [1e6, 1e6]), np.array([40, 30])

    for bubbles in (None, np.array([1.0, 6.0])):
        alone = priced_fluid(np.stack(list(map(least_each, (fast, wide)))), [3, 1], counts, bubbles)
        more = None if bubbles is None else np.append(bubbles, 0.0)
        solved = priced_fluid(np.stack(list(map(least_each, (fast, wide, hopeless)))), [3, 1, 1], counts, more)

        assert alone.seconds == pytest.approx(solved.seconds, rel=1e-4)
        assert alone.flow.tolist() == [[40, 0], [0, 30]]
        assert alone.bound == pytest.approx(0.0 if more is not None else alone.seconds)


def test_a_kind_without_machines_gets_nothing():
    assert fluid_bound([loads([1], [0], [1.0]), loads([1], [0], [0.1])], [2, 0], np.array([10])) == pytest.approx(5)


def test_nothing_to_do_takes_no_time():
    assert fluid_bound([loads([4], [1.0], [0.5])], [2], np.array([0])) == 0


def test_a_bucket_that_fits_no_kind_is_infeasible():
    with pytest.raises(Infeasible, match="some sequences fit no replica"):
        fluid_bound([loads([4, 0], [1, 1], [1, 1])], [2], np.array([3, 1]))


@pytest.mark.parametrize("fixed", [-0.4, -0.05, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("floor", [0.0, 0.5, 1.4, 9.0])
def test_the_least_price_of_a_sequence_is_below_every_share_of_a_micro_batch(fixed, floor):
    """Fits may make the fixed part slightly negative: then the largest micro-batch is not the cheapest one."""
    kind = loads([7], [fixed], [0.6], floor)

    shares = [max(floor, fixed + 0.6 * size) / size for size in range(1, 8)]

    assert least_each(kind) == pytest.approx([min(shares)])


def test_the_latency_bound_is_the_most_awkward_sequence_on_its_best_kind():
    small, large = loads([4, 0], [1, 1], [1, 1]), loads([9, 9], [1, 1], [0.5, 5], 0.0, 3)

    bound = latency_bound([small, large], [1, 1], np.array([3, 1]))

    assert bound == pytest.approx(plain_seconds(large, [0, 1])) == pytest.approx(18)


def exact_optimum(each, machines, counts):
    """The fluid optimum of two kinds without any rounding: what kind 0 is relatively best at goes there, one is split.

    Buckets move to kind 0 in the order of that advantage, until both kinds end together.
    """
    whole = [[Fraction(float(price)) * int(count) for price, count in zip(row, counts, strict=True)] for row in each]
    work = [Fraction(0), sum(whole[1], Fraction(0))]
    for here, there in sorted(zip(*whole, strict=True), key=lambda pair: pair[1] / pair[0], reverse=True):
        share = (work[1] / machines[1] - work[0] / machines[0]) / (here / machines[0] + there / machines[1])
        moved = min(max(share, Fraction(0)), Fraction(1))
        work[0] += moved * here
        work[1] -= moved * there
        if moved < 1:
            break
    return max(work[0] / machines[0], work[1] / machines[1])


def test_no_rounding_and_no_tolerance_lifts_the_fluid_above_the_exact_optimum():
    """Rational arithmetic is the judge: not even the last bit may be above, and hardly anything is given away."""
    random = np.random.default_rng(11)
    for _ in range(300):
        buckets, size = int(random.integers(1, 9)), 10.0 ** random.integers(-4, 5)
        each = random.uniform(0.01, 1.0, (2, buckets)) * size
        machines, counts = random.integers(1, 300, 2).tolist(), random.integers(1, 10_000, buckets)

        bound, truth = priced_fluid(each, machines, counts).bound, exact_optimum(each, machines, counts)

        assert Fraction(bound) <= truth
        assert bound >= float(truth) * (1 - 1e-6)


@pytest.mark.parametrize("error", [3e-6, 0.3, -5.0])
def test_a_solver_that_is_wrong_makes_a_bound_weaker_but_never_wrong(monkeypatch, error):
    """Duals are only a proposal: whatever they are, the bound holds."""
    random, truthful = np.random.default_rng(5), highs._read

    def wrong(*arguments):
        answer = truthful(*arguments)
        answer.duals = None if answer.duals is None else answer.duals * (1 + error * random.random(len(answer.duals)))
        return answer

    monkeypatch.setattr(highs, "_read", wrong)
    for _ in range(20):
        each, counts = random.uniform(0.1, 1.0, (2, 5)), random.integers(1, 50, 5)
        truth = exact_optimum(each, [3, 5], counts)

        assert 0 < Fraction(priced_fluid(each, [3, 5], counts).bound) <= truth
        kinds = [loads([1] * 5, [0.0] * 5, row) for row in each]
        assert Fraction(fluid_bound(kinds, [3, 5], counts)) <= truth
        assert Fraction(level_bound(kinds, [3, 5], counts)) <= truth
