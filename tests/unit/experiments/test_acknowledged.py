"""A real run that is started again: what was trained is never forgotten, and a refusal leaves all as it was."""

import pytest

import toys
from experiments.acknowledged import MARKS, batches_of, kept, refuse_shorter
from experiments.schema import Sim, World
from experiments.schema_executor import Torch
from experiments.walk import World as Walked
from experiments.walk import walk
from lobra import codec
from lobra.errors import BadInput
from lobra.trace import StepReport
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.deployment.fixed import Fixed
from policies.dispatch.uniform import Uniform
from policies.grouping import Together
from policies.policy import Policy
from sim.simulator import Simulator


def trained(folder, *steps: int, saved: int | None = None):
    """A job whose ranks have reported these steps (a batch may have several plans), so many of them in a checkpoint."""
    job = folder / "0" / "job"
    (job / "checkpoints" / f"step-{saved if saved is not None else len(steps)}").mkdir(parents=True)
    reports = [StepReport(step, 1.0, 2, 1.0, 8, 8) for step in steps]
    (job / "trace.jsonl").write_text("".join(codec.encode(report) + "\n" for report in reports))
    return job


def asked(steps: int, **backend) -> World:
    return World(steps=steps, backend=Torch(**backend))


def test_fewer_batches_than_were_trained_are_refused_before_anything_starts(tmp_path):
    trained(tmp_path, 0, 1, 2)

    with pytest.raises(BadInput, match=r"steps is 2, but the run in .* has already trained 3; ask for more"):
        refuse_shorter(asked(2), tmp_path, ("lobra",))

    refuse_shorter(asked(3), tmp_path, ("lobra",))
    refuse_shorter(World(steps=2, backend=Sim()), tmp_path, ("lobra",))


def test_a_policy_of_a_comparison_counts_only_where_it_is_played_again(tmp_path):
    trained(tmp_path / "lobra", 0, 1, 2)

    with pytest.raises(BadInput, match="has already trained 3"):
        refuse_shorter(asked(2), tmp_path, ("task_fused", "lobra"))

    refuse_shorter(asked(2), tmp_path, ("task_fused",))


def test_batches_are_counted_up_to_the_checkpoint_however_many_plans_they_have(tmp_path):
    assert batches_of(trained(tmp_path / "a", 0, 0, 1, 1, 2, saved=3)) == 2
    assert batches_of(tmp_path / "b") == 0


def test_a_run_that_must_not_be_resumed_is_refused_as_long_as_it_has_checkpoints(tmp_path):
    trained(tmp_path, 0, 1)

    with pytest.raises(BadInput, match="holds checkpoints of an earlier run; resume it"):
        refuse_shorter(asked(9, resume=False), tmp_path, ("lobra",))


@pytest.mark.parametrize(("error", "stays"), [(BadInput("other data"), True), (RuntimeError("a rank died"), False)])
def test_a_refusal_puts_files_back_and_any_other_end_does_not(tmp_path, error, stays):
    (tmp_path / "summary.json").write_text("old")

    def start() -> None:
        with kept(tmp_path, MARKS):
            (tmp_path / "summary.json").write_text("new")
            raise error

    with pytest.raises(type(error)):
        start()

    assert (tmp_path / "summary.json").read_text() == ("old" if stays else "new")
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


class Refusing:
    """A backend that plays so many steps of a job and then finds fault."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def play(self, directives):
        for number, report in enumerate(Simulator(toys.ToyCost()).play(directives)):
            if number == self.steps:
                raise BadInput("resume with the same workload and seed")
            yield report


@pytest.mark.parametrize("steps", [1, 4])
def test_streams_of_a_refused_start_are_the_old_ones_unless_they_tell_of_more(tmp_path, steps):
    cost, batching = toys.ToyCost(), Padded(FixedBuckets((256, 1024, 4096)))
    policy = Policy("toy", Together(), Fixed("4,1x2;8,1x1"), batching, Uniform())
    world = Walked(toys.workload(0), toys.MODEL, toys.cluster(), cost)
    walk(policy, world, lambda _: Simulator(cost), steps=2, folder=tmp_path)
    (tmp_path / "0" / "job").mkdir()
    before = (tmp_path / "0" / "trace.jsonl").read_text()

    with pytest.raises(BadInput, match="the same workload"):
        walk(policy, world, lambda _: Refusing(steps), steps=5, folder=tmp_path)

    after = (tmp_path / "0" / "trace.jsonl").read_text()
    assert (after == before) == (steps == 1)
    assert not list(tmp_path.rglob("*.before"))
