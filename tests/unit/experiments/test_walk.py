"""The walk: one policy on one backend, everything written as it comes."""

import json
from dataclasses import dataclass, replace

import pytest

import toys
from experiments.walk import World, walk
from lobra import stream
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.trace import StepReport
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.fixed import Fixed
from policies.dispatch.uniform import Uniform
from policies.grouping import OneByOne, Together
from policies.policy import Policy
from sim.simulator import Simulator

COST = toys.ToyCost()


def world(seed: int = 0) -> World:
    return World(toys.workload(seed), toys.MODEL, toys.cluster(), COST)


def policy(grouping=None, dispatch=None) -> Policy:
    batching = Padded(FixedBuckets((256, 1024, 4096)))
    return Policy("toy", grouping or Together(), Fixed("4,1x2;8,1x1"), batching, dispatch or Uniform())


def play(folder, seed: int = 0, **more):
    return walk(policy(**more), world(seed), lambda _: Simulator(COST), steps=3, folder=folder)


def test_a_group_leaves_directives_trace_and_timings(tmp_path):
    (group,) = play(tmp_path)
    directives = list(stream.read(tmp_path / "0" / "directives.jsonl"))
    assert isinstance(directives[0], DeploymentPlan)
    assert [step.step for step in directives[1:]] == [0, 1, 2]
    assert directives[0] == group.plan
    reports = list(stream.read(tmp_path / "0" / "trace.jsonl"))
    assert [report.seconds for report in reports] == [report.seconds for report in group.reports]
    assert all(report.spans for report in reports)
    assert not any(report.spans for report in group.reports)


def test_a_written_stream_plays_again_to_the_same_trace(tmp_path):
    play(tmp_path)
    directives = stream.read(tmp_path / "0" / "directives.jsonl")
    assert list(Simulator(COST).play(directives)) == list(stream.read(tmp_path / "0" / "trace.jsonl"))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    for name, seed in (("first", 0), ("second", 0), ("other", 1)):
        play(tmp_path / name, seed)
    for file in ("directives.jsonl", "trace.jsonl"):
        first, second, other = ((tmp_path / name / "0" / file).read_bytes() for name in ("first", "second", "other"))
        assert first == second != other


def test_tenants_one_by_one_get_a_folder_each(tmp_path):
    groups = play(tmp_path, grouping=OneByOne())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2"]
    assert [group.plan.tenants[0].name for group in groups] == ["short", "middle", "long"]


def test_wall_clock_seconds_stand_in_timings_alone(tmp_path):
    (group,) = play(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "0" / "timings.jsonl").read_text().splitlines()]
    assert lines[0] == {"planning_seconds": group.planning_seconds}
    assert [line["step"] for line in lines[1:]] == [0, 1, 2]
    assert tuple(line["dispatch_seconds"] for line in lines[1:]) == group.dispatch_seconds
    assert all(seconds > 0 for seconds in group.dispatch_seconds)


def test_every_step_ticks(tmp_path):
    ticks = []
    walk(policy(), world(), lambda _: Simulator(COST), steps=4, folder=tmp_path, tick=lambda: ticks.append(1))
    assert len(ticks) == 4


@dataclass(frozen=True)
class Forgetful:
    """Loses the last sequence of the widest bucket."""

    def assign(self, buckets, plan, batching, cost):
        last = buckets[-1]
        kept = replace(last, sequences=last.sequences.take(range(last.count - 1)))
        rest = [kept] if kept.count else []
        return Uniform().assign((*buckets[:-1], *rest), plan, batching, cost)


def test_a_policy_that_loses_a_sequence_is_refused(tmp_path):
    with pytest.raises(BadInput, match="step 0: 1 sequences lost, 0 too many"):
        play(tmp_path, dispatch=Forgetful())


@dataclass(frozen=True)
class Cutting:
    """The toy workload with over-long sequences cut."""

    inner: toys.ToyWorkload
    tenants: tuple = ()

    def lengths(self, tenant):
        return self.inner.lengths(tenant)

    def batches(self, steps):
        for batch in self.inner.batches(steps):
            yield replace(batch, truncated=(0, 2, 1), dropped=(0, 0, 1))

    def only(self, tenants):
        return self.inner.only(tenants)


def test_truncated_and_dropped_sequences_are_counted_by_tenant(tmp_path):
    inner = toys.workload()
    cut = World(Cutting(inner, inner.tenants), toys.MODEL, toys.cluster(), COST)
    (group,) = walk(policy(), cut, lambda _: Simulator(COST), steps=3, folder=tmp_path)
    assert group.truncated == {"short": 0, "middle": 6, "long": 3}
    assert group.dropped == {"short": 0, "middle": 0, "long": 3}


def test_a_step_that_is_planned_while_another_plays_is_written_before_it_is_played(tmp_path):
    @dataclass(frozen=True)
    class Watching:
        def play(self, directives):
            for directive in directives:
                written = (tmp_path / "0" / "directives.jsonl").read_text().splitlines()
                kind = "StepPlan" if isinstance(directive, StepPlan) else "DeploymentPlan"
                assert f'"kind":"{kind}"' in written[-1]
                yield from ()

    walk(policy(), world(), lambda _: Watching(), steps=2, folder=tmp_path)


def test_a_backend_that_resumes_may_report_steps_before_they_are_planned_again(tmp_path):
    class Resuming:
        def play(self, directives):
            iterator = iter(directives)
            next(iterator)
            yield from (StepReport(number, 1.0, 16, 0.0, 1, 1) for number in range(2))
            assert len(list(iterator)) == 2

    (group,) = walk(policy(), world(), lambda _: Resuming(), steps=2, folder=tmp_path)
    assert [report.step for report in group.reports] == [0, 1]
    lines = (tmp_path / "0" / "timings.jsonl").read_text().splitlines()
    assert [json.loads(line).get("step") for line in lines] == [None, 0, 1]
