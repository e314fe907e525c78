import json
import subprocess
import sys
from dataclasses import replace

import pytest

from executor import description
from executor.crew import rank_environment
from executor.description import Fault, knobs
from executor.failures import RankFailure, read_outcome
from executor.launch import Attached, Torchrun
from executor.refusal import Gate
from executor.reporting import NOT_FINITE
from lobra import stream
from lobra.errors import BadInput, Infeasible
from lobra.plan import Replica, ReplicaConfig
from small_jobs import PAIR, A, B, C, adapters, directives, execution, plan, played, step


def test_launching_needs_no_torch():
    found = subprocess.run(
        [sys.executable, "-c", "import executor.launch, sys; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "False\n" == found.stdout


# What is refused before anything starts


def refused(tmp_path, directives, **changed):
    with pytest.raises(BadInput) as caught:
        next(Torchrun(tmp_path / "job", execution(**changed)).play(directives))
    assert not (tmp_path / "job").exists()  # nothing was started, nothing written
    return str(caught.value)


def test_sharded_weights_are_refused_by_name(tmp_path):
    config = ReplicaConfig(1, 1, fsdp=2)
    deployed = replace(plan(*PAIR), replicas=(Replica(config, (0,), 256), Replica(config, (1,), 256)))

    assert "replica 0: fsdp is 2" in refused(tmp_path, iter([deployed]))


def test_an_undrained_pipeline_is_refused_by_name(tmp_path):
    deployed = plan(*PAIR)
    undrained = replace(step(0, deployed), drain=False)

    assert "step 0: drain is false" in refused(tmp_path, iter([deployed, undrained]))


def test_a_plan_for_more_gpus_than_ranks_is_refused(tmp_path):
    assert "has 4 GPUs, but the job has 2 ranks" in refused(tmp_path, directives(1, (2, 1), (1, 2)))


def test_a_stream_that_begins_with_a_step_is_refused(tmp_path):
    assert "no plan is deployed yet" in refused(tmp_path, iter([step(0, plan(*PAIR))]))


def test_a_step_that_does_not_fit_its_plan_is_refused():
    gate = Gate(4)
    gate.check(plan(*PAIR))
    with pytest.raises(BadInput, match="work for 1 replicas, but the plan has 2"):
        gate.check(step(0, plan((1, 1))))


def test_without_a_step_nothing_is_started(tmp_path):
    assert [] == list(Torchrun(tmp_path / "job", execution()).play(iter([plan(*PAIR)])))
    assert not (tmp_path / "job").exists()


# Real ranks


def test_a_planner_that_fails_ends_the_ranks(tmp_path):
    def planner():
        yield from directives(2)
        raise Infeasible("tenant 'a': nothing holds it")

    with pytest.raises(Infeasible, match="nothing holds it"):
        list(Torchrun(tmp_path, execution()).play(planner()))


def test_a_run_dir_serves_one_launcher_at_a_time(tmp_path):
    first = Torchrun(tmp_path, execution()).play(directives(3))
    next(first)
    with pytest.raises(BadInput, match="another launcher uses it"):
        next(Torchrun(tmp_path, execution()).play(directives(3)))
    first.close()


def test_torchrun_gives_what_our_own_launcher_gives_and_names_a_dead_rank_too(tmp_path):
    jobs = {name: Torchrun(tmp_path / name, execution(), name) for name in ("own", "torchrun")}
    reports = {name: [report.losses for report in job.play(directives(2))] for name, job in jobs.items()}

    assert reports["own"] == reports["torchrun"]
    assert adapters(tmp_path / "own") == adapters(tmp_path / "torchrun")

    dying = Torchrun(tmp_path / "dying", execution(Fault("kill", 1, 1, "forward")), "torchrun")
    with pytest.raises(RuntimeError, match=r"rank 1 died in step 1, forward of micro-batch 0"):
        list(dying.play(directives(3)))


def started_elsewhere(folders):
    """Ranks as srun would start them, one a folder."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, "-m", "executor.worker", str(folder)],
            env=rank_environment(rank, len(folders), port, 1),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for rank, folder in enumerate(folders)
    ]


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_ranks_that_somebody_else_started_can_be_fed(tmp_path):
    ranks = started_elsewhere([tmp_path, tmp_path])
    reports = [report.step for report in Attached(tmp_path, execution()).play(directives(3))]

    assert [0, 1, 2] == reports
    assert [0, 0] == [rank.wait(20) for rank in ranks]
    assert not (tmp_path / "feeder").exists()


def test_a_rank_that_dies_elsewhere_is_named_though_only_its_peers_can_speak(tmp_path):
    job = Attached(tmp_path, execution(Fault("kill", 1, 1, "forward"))).play(directives(3))
    ranks = started_elsewhere([tmp_path, tmp_path])
    with pytest.raises(RankFailure, match=r"^rank 1 died in step 1, forward of micro-batch 0: it left no word"):
        list(job)

    assert [6, -9] == [rank.wait(20) for rank in ranks]


def test_a_rank_with_other_settings_is_refused_before_the_first_step(tmp_path):
    for name, dtype in (("0", "float64"), ("1", "float32")):
        (tmp_path / name).mkdir()
        description.freeze(tmp_path / name, replace(execution(), settings=knobs({"dtype": dtype})))
    ranks = started_elsewhere([tmp_path / "0", tmp_path / "1"])

    assert [2, 2] == [rank.wait(30) for rank in ranks]
    told = read_outcome(tmp_path / "0" / "ranks", 0)
    assert told is not None
    assert told.message.startswith(
        "rank 1 differs from rank 0: execution.settings.dtype is 'float32' there and 'float64'"
    )


def test_a_run_goes_on_on_another_layout(tmp_path):
    list(Torchrun(tmp_path, execution()).play(directives(2)))
    job = Torchrun(tmp_path, execution(ranks=3))
    reports = list(job.play(directives(4, (1, 2), (1, 1), shift=1)))
    played(tmp_path / "straight")

    assert [0, 1, 2, 3] == [report.step for report in reports]
    straight = [report.losses for report in stream.read(tmp_path / "straight" / "trace.jsonl")]
    for expected, report in zip(straight, reports, strict=True):
        assert expected == pytest.approx(report.losses, rel=1e-9)


def test_other_data_than_the_checkpoint_was_trained_on_are_refused(tmp_path):
    played(tmp_path, steps=2)

    def changed():
        deployed = plan(*PAIR)
        yield deployed
        yield from (replace(step(number + 1, deployed), step=number) for number in range(4))

    with pytest.raises(BadInput, match="tenant 'a': the 4 sequences of the first 2 steps are not"):
        list(Torchrun(tmp_path, execution()).play(changed()))


def test_tenants_come_and_go_in_mid_stream_and_find_their_adapters_again(tmp_path):
    deployments = [plan(*PAIR, tenants=(A, B)), plan((1, 2), tenants=(B, C)), plan(*PAIR, tenants=(C, A))]

    def churn():
        for number, deployed in enumerate(deployments):
            yield deployed
            yield from (step(2 * number + i, deployed) for i in range(2))

    reports = list(Torchrun(tmp_path, execution(checkpoint_steps=0)).play(churn()))
    alone = Torchrun(tmp_path / "alone", execution(checkpoint_steps=0))

    def only_a():
        deployed = plan(*PAIR, tenants=(A,))
        yield deployed
        yield from (step(number, deployed) for number in (0, 1))
        again = plan(*PAIR, tenants=(A,))
        yield from (replace(step(number, again, shift=1), step=number) for number in (4, 5))

    expected = [report.losses[0] for report in alone.play(only_a())]
    actual = [reports[0].losses[0], reports[1].losses[0], reports[4].losses[1], reports[5].losses[1]]
    assert ["a", "b", "c"] == sorted(adapters(tmp_path))
    assert any(span.kind == "deploy" for span in reports[2].spans)
    assert expected == pytest.approx(actual, rel=1e-9)


def test_a_tenant_that_explodes_is_put_aside_and_the_others_keep_their_bits(tmp_path):
    exploding = replace(B, learning_rate=1e200)
    calm, wild = Torchrun(tmp_path / "calm", execution()), Torchrun(tmp_path / "wild", execution())
    list(calm.play(directives(5)))
    reports = list(wild.play(directives(5, tenants=(A, exploding))))
    outcome = json.loads((tmp_path / "wild" / "outcome.json").read_text())
    events = [json.loads(line) for line in (tmp_path / "wild" / "events.jsonl").read_text().splitlines()]

    assert {"schema": 1, "steps": 5, "quarantined": ["b"]} == outcome
    assert [(1, "skipped"), (2, "skipped"), (3, "quarantined")] == [(each["step"], each["event"]) for each in events]
    assert NOT_FINITE == reports[1].losses[1]
    assert adapters(tmp_path / "wild") == {"a": adapters(tmp_path / "calm")["a"]}


def test_training_goes_on_for_a_while_where_no_checkpoint_can_be_written_and_then_fails_truthfully(tmp_path):
    (tmp_path / "checkpoints").write_text("this is no folder")
    steps = []
    with pytest.raises(RankFailure, match=r"checkpoint could not be written 3 times"):
        steps.extend(report.step for report in Torchrun(tmp_path, execution(failed_saves=2)).play(directives(9)))

    assert [0, 1, 2, 3] == steps
    assert "WARNING: the checkpoint could not be written" in (tmp_path / "ranks" / "rank-0.log").read_text()


def test_a_run_whose_last_checkpoint_cannot_be_written_is_not_called_done(tmp_path):
    (tmp_path / "checkpoints").write_text("this is no folder")

    with pytest.raises(RankFailure, match=r"the run is not over"):
        list(Torchrun(tmp_path, execution(checkpoint_steps=0)).play(directives(2)))
