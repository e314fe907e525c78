"""Laws of the simulator, for random pipelines, groups, costs and noise."""

from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, StepPlan
from lobra.trace import Span, StepReport
from sim.disturbance import Noise
from sim.simulator import Simulator
from toys import plan
from unit.sim.worlds import PerToken, overlaps, tokens, work

Operation = tuple[int, int, str, int]  # replica, stage, direction, micro-batch

shares = st.lists(st.integers(1, 20), max_size=9)
costs = st.builds(
    PerToken,
    forward=st.sampled_from([0.0, 1.0, 0.25, 0.7]),
    backward=st.sampled_from([0.0, 2.0, 1.0, 1.3]),
    transfer=st.sampled_from([0.0, 0.0, 0.5, 3.1]),
    synchronise=st.sampled_from([0.0, 1.5]),
)
noises = st.none() | st.builds(Noise, seed=st.integers(0, 9), jitter_sigma=st.sampled_from([0.0, 0.5]))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[DeploymentPlan, StepPlan]:
    """Up to four pipelines; micro-batches of random groups, in one order on all members, before their own."""
    pp, count = draw(st.sampled_from([(1, 4), (2, 4), (4, 3), (8, 2)]))
    held: list[list[int | MicroBatch]] = [[] for _ in range(count)]
    for group in draw(st.lists(st.lists(st.integers(0, count - 1), min_size=2, unique=True), max_size=4)):
        shared = tokens(draw(st.integers(1, 20)), *group)
        for member in group:
            held[member].append(shared)
    for share in held:
        share.extend(draw(shares))
    return plan((1, pp, count), budget=10**6), work(*held)


def play(cost: PerToken, deployment: DeploymentPlan, step: StepPlan, noise: Noise | None = None) -> StepReport:
    (played,) = Simulator(cost, noise=noise).play([deployment, step])
    return played


def order(stage: int, stages: int, microbatches: int) -> list[tuple[str, int]]:
    """One-forward-one-backward as a rule of memory: a stage holds at most stages - stage micro-batches."""
    done: list[tuple[str, int]] = []
    begun = ended = 0
    while ended < microbatches:
        if begun < microbatches and begun - ended < stages - stage:
            done.append(("forward", begun))
            begun += 1
        else:
            done.append(("backward", ended))
            ended += 1
    return done


def relaxed(cost: PerToken, deployment: DeploymentPlan, step: StepPlan) -> dict[Operation, float] | None:
    """When each operation starts, without events: every start is raised to what it waits for, until nothing moves.

    None where starts grow for ever, because operations wait for each other in a circle.
    """
    duration: dict[Operation, float] = {}
    waits: dict[Operation, list[tuple[Operation, float]]] = {}
    together: dict[tuple[object, ...], list[Operation]] = {}
    for replica, held in enumerate(step.work):
        stages = deployment.replicas[replica].config.pp
        for stage in range(stages):
            before: Operation | None = None
            for kind, microbatch in order(stage, stages, len(held)):
                this = (replica, stage, kind, microbatch)
                duration[this] = cost.stage_seconds(deployment.replicas[replica], stage, held[microbatch].shape, kind)
                waits[this] = [] if before is None else [(before, 0.0)]
                neighbour = stage - 1 if kind == "forward" else stage + 1
                if 0 <= neighbour < stages:
                    waits[this].append(((replica, neighbour, kind, microbatch), cost.transfer))
                if group := held[microbatch].group:
                    number = [other.group for other in held[:microbatch]].count(group)
                    together.setdefault((group, number, stage, kind), []).append(this)
                before = this
    start = dict.fromkeys(duration, 0.0)
    for _ in range(len(start) + 1):
        earlier = dict(start)
        for this in start:
            start[this] = max([start[this], *(start[other] + duration[other] + more for other, more in waits[this])])
        for members in together.values():
            latest = max(start[member] for member in members)
            start.update(dict.fromkeys(members, latest))
        if earlier == start:
            return start
    return None


def starts(spans: Sequence[Span]) -> dict[Operation, float]:
    return {(s.replica, s.stage, s.kind, s.microbatch): s.start for s in spans if s.kind in ("forward", "backward")}


@given(worlds(), costs)
@settings(max_examples=80, deadline=None)
def test_every_operation_starts_when_all_it_waits_for_is_over(
    world: tuple[DeploymentPlan, StepPlan], cost: PerToken
) -> None:
    strict = PerToken(forward=1.0, backward=1.0)  # whether all wait in a circle does not depend on durations
    if relaxed(strict, *world) is None:
        with pytest.raises(BadInput, match="stalls"):
            play(cost, *world)
    else:
        expected = relaxed(cost, *world)
        assert expected is not None
        assert expected == pytest.approx(starts(play(cost, *world).spans), abs=1e-9)


@given(worlds(), costs, noises)
@settings(max_examples=60, deadline=None)
def test_no_stage_does_two_things_at_once_and_the_step_is_no_shorter_than_its_work(
    world: tuple[DeploymentPlan, StepPlan], cost: PerToken, noise: Noise | None
) -> None:
    deployment, step = world
    try:
        played = play(cost, deployment, step, noise)
    except BadInput:
        return
    busy: dict[tuple[int, int], float] = {}
    for span in played.spans:
        if span.kind in ("forward", "backward"):
            busy[span.replica, span.stage] = busy.get((span.replica, span.stage), 0.0) + span.end - span.start

    assert not overlaps(played.spans)
    assert sum(busy.values()) == pytest.approx(played.busy_gpu_seconds)
    assert played.seconds >= max(busy.values(), default=0.0) + cost.synchronise - 1e-9
    assert max(span.end for span in played.spans) == played.seconds


@given(worlds(), st.sampled_from([0.5, 2.0, 8.0]), st.sampled_from(["pipeline", "closed"]))
@settings(max_examples=40, deadline=None)
def test_costs_scaled_by_a_factor_scale_the_step(
    world: tuple[DeploymentPlan, StepPlan], factor: float, fidelity: Literal["pipeline", "closed"]
) -> None:
    cost = PerToken(1, forward=1.0, backward=1.75, transfer=0.5, synchronise=2.0)
    scaled = PerToken(1, forward=factor, backward=1.75 * factor, transfer=0.5 * factor, synchronise=2.0 * factor)
    try:
        (slow,) = Simulator(cost, fidelity).play(world)
    except BadInput:
        return
    (fast,) = Simulator(scaled, fidelity).play(world)

    assert fast.seconds == factor * slow.seconds  # exact: the factors are powers of two


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_equal_microbatches_take_the_closed_form_in_both_fidelities(pp: int, count: int, length: int) -> None:
    deployment, step = plan((1, pp, 1), budget=10**6), work([length] * count)
    exact = (count + pp - 1) * (1 + 2) * length

    assert exact == play(PerToken(), deployment, step).seconds
    assert [exact] == [played.seconds for played in Simulator(PerToken(), "closed").play([deployment, step])]


@given(worlds(), noises)
@settings(max_examples=60, deadline=None)
def test_replicas_of_one_stage_take_the_same_in_both_fidelities(
    world: tuple[DeploymentPlan, StepPlan], noise: Noise | None
) -> None:
    """Groups and their waits included; with noise, members wait for each other in the backward as well."""
    deployment, step = world
    flat = plan((1, 1, len(deployment.replicas)), budget=10**6)
    events = play(PerToken(), flat, step, noise).seconds
    (formula,) = Simulator(PerToken(), "closed", noise=noise).play([flat, step])

    if noise is None or noise.jitter_sigma == 0:
        assert events == pytest.approx(formula.seconds)
    else:
        assert events >= formula.seconds - 1e-9


@given(st.lists(shares, min_size=2, max_size=4), st.permutations(range(4)), costs)
@settings(max_examples=40, deadline=None)
def test_the_order_of_equal_replicas_does_not_matter(
    held: list[list[int]], permutation: Sequence[int], cost: PerToken
) -> None:
    deployment = plan((1, 4, len(held)), budget=10**6)
    order = [index for index in permutation if index < len(held)]

    one, other = play(cost, deployment, work(*held)), play(cost, deployment, work(*(held[index] for index in order)))

    assert one.seconds == other.seconds
    assert one.busy_gpu_seconds == pytest.approx(other.busy_gpu_seconds)


@given(st.data(), st.sampled_from([(1, 6), (2, 6), (3, 5), (4, 4)]), costs)
@settings(max_examples=60, deadline=None)
def test_shared_microbatches_at_one_position_on_all_members_never_stall(
    data: st.DataObject, shape: tuple[int, int], cost: PerToken
) -> None:
    """In each round the replicas that are left form groups; whoever finds none goes on to its own."""
    pp, count = shape
    held: list[list[int | MicroBatch]] = [[] for _ in range(count)]
    left = list(range(count))
    while len(left) > 1 and data.draw(st.booleans() if held[left[0]] else st.just(True)):
        left, joining = [], data.draw(st.permutations(left))
        while len(joining) > 1:
            size = data.draw(st.integers(2, len(joining)))
            group, joining = joining[:size], joining[size:]
            for member in group:
                held[member].append(tokens(3 * size, *group))
            left += group
    for share in held:
        share.extend(data.draw(shares))

    assert play(cost, plan((1, pp, count), budget=10**6), work(*held)).seconds >= cost.synchronise
