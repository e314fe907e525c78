"""What others counted wrongly: units of prices, busy time, tokens, warm-up, rows of traces, clocks."""

import csv
import gzip
import json
import math

import pytest

import toys
from experiments.capacity.accounting import Bill, Charged, billed
from experiments.capacity.money import invoice
from experiments.capacity.prices import Price, PriceBook
from experiments.capacity.steady import typical_seconds
from lobra.errors import BadInput
from lobra.plan import MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import SequenceRef
from sim.fleet.asking import all_at_once
from sim.fleet.fleet import Fleet
from sim.fleet.nouns import Job, Split, StepTime, Verdict
from sim.simulator import Simulator
from unit.sim.worlds import PerToken
from workloads.arrivals.drawing import poisson_times
from workloads.arrivals.philly import ran_of, read_philly
from workloads.arrivals.trace import read_trace


def price(amount, unit, gpus_per_node=4):
    return Price("toy", "somebody", amount, unit, "on_demand", gpus_per_node, "a page", "2026-11-01")


def pay(gpu_seconds, gpus, offer):
    bill = Bill("work", (("a", gpu_seconds),), 0.0, gpu_seconds)
    return invoice(bill, gpus, offer, PriceBook("own", "USD", (offer,)))


def stay(now, running, jobs, cause):
    del now, jobs, cause
    return Verdict(running or "first", moved=running is None)


def always(step):
    def takes(jobs, plan):
        del jobs, plan
        return step

    return takes


def test_a_node_of_four_at_four_dollars_an_hour_bills_three_dollars_for_45_minutes():
    """S1. skypilot-org/skypilot PR#9000; opencost/opencost#2029, #723; ROCm/spur#805: not 12.00, 0.75 or 180."""
    config = ReplicaConfig(2, 2)
    charges = [Charged(("a",), config.gpus * 45 * 60)]
    bill = billed(charges, lambda names: dict.fromkeys(names, 1.0), "work")
    found = pay(bill.total, config.gpus, price(4.0, "node_hour"))

    assert bill.total / 3600 == 3.0
    assert found.total == 3.0
    assert found.price.unit == "node_hour"  # what it was is told with the bill
    assert found.price.cited.startswith("4 per node_hour")
    assert price(730.0, "gpu_month").per_gpu_hour == 1.0


def overlapping(gpus):
    """A step of two stages whose messages overlap computing, on a cluster of so many GPUs."""
    hardware = toys.cluster(1, gpus)
    replica = Replica(ReplicaConfig(1, 2), (0, 1), 1024)
    plan = toys.DeploymentPlan(toys.MODEL, hardware, (toys.tenant(),), (replica,))
    rows = tuple(MicroBatch(((SequenceRef(0, number, 50, 50),),), 50) for number in range(6))
    yield plan
    yield StepPlan(0, (rows,))


def test_busy_time_is_never_counted_twice_and_unused_gpus_are_in_the_average():
    """S2. GindaChen/nsys-ai#574; StanfordLegion/legion#691; ray-project/ray#29630; Azure/hpcpack#20."""
    cost = PerToken(forward=1.0, backward=2.0, transfer=40.0)
    two, four = (next(iter(Simulator(cost).play(overlapping(gpus)))) for gpus in (2, 4))
    computing = [span for span in two.spans if span.kind in ("forward", "backward")]

    assert any(span.kind == "transfer" for span in two.spans)
    assert two.busy_gpu_seconds == pytest.approx(math.fsum(span.end - span.start for span in computing))
    assert 0 < 1 - two.idle_share < 1
    assert 1 - four.idle_share == pytest.approx((1 - two.idle_share) / 2)  # as many GPUs again, none of them used


def test_a_fleet_whose_second_gpu_is_never_used_is_half_as_busy():
    """S2, the numbers: 150 of 200 s on one GPU are 75 %, with another that nobody uses 37.5 %."""

    for gpus, share in ((1, 0.75), (2, 0.375)):
        step = StepTime((2.0,), Split(useful=1.5, idle=2.0 * gpus - 1.5))
        split = Fleet(gpus, always(step), all_at_once, stay).play([Job("a", 0.0, 100, 1.0)]).split
        assert split.useful / split.total == pytest.approx(share)
        assert split.total == pytest.approx(200 * gpus)


def test_tokens_of_a_fleet_are_counted_once_and_their_rate_does_not_grow_with_the_run():
    """S4. huggingface/trl#7100; PrimeIntellect-ai/prime-rl PR#2424: 24 tokens in 2 s on 4 GPUs."""
    for steps in (1, 3):
        fleet = Fleet(4, always(StepTime((2.0,), Split(useful=1.0))), all_at_once, stay)
        history = fleet.play([Job("a", 0.0, steps, step_tokens=10.0 + 14.0)])
        tokens = math.fsum(record.tokens for record in history.records)

        assert tokens == 24 * steps
        assert tokens / history.seconds == 12
        assert tokens / history.split.total == 3


def test_the_steady_step_leaves_warm_up_out():
    """S8. alpa-projects/mms#22; pytorch/xla PR#6210; casys-kaist/LLMServingSim#40: 0.103 s, never 16.0 s."""
    measured = [79.075, 0.607, 0.115, 0.106, 0.100]

    assert typical_seconds(measured) == pytest.approx(0.103)


def as_trace(rows, path):
    """Pods of the Alibaba trace as this project's columns; its class of service stands in for who asked."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("submit_s", "duration_s", "gpus", "tenant"))
        for row in rows:
            ran = float(row["end_s"]) - float(row["start_s"]) if row["start_s"] else ""
            writer.writerow((row["submit_s"], ran, row["gpus"], row["qos"]))
    return path


def test_of_102_rows_of_a_real_trace_every_one_is_accepted_or_rejected_with_its_reason(tmp_path, reference_data):
    """S9. alibaba/clusterdata#167, #10, #257: recounted, 8 of the first 100 GPU pods were never scheduled."""
    file = reference_data / "workloads/traces/alibaba_gpu2023_openb.csv.gz"
    if not file.is_file():
        pytest.skip(f"no trace at {file}")
    with gzip.open(file, "rt", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))[:100]
    backwards = rows[0] | {"start_s": "500", "end_s": "100"}
    jobs, report = read_trace(as_trace([*rows, backwards, rows[0] | {"qos": ""}], tmp_path / "t.csv"), rejected="skip")

    assert (report.lines, report.accepted) == (102, 92)
    assert {reason: count for reason, count, _ in report.rejected} == {
        "its size is not given by exactly one of duration_s, steps, tokens, epochs": 8,
        "duration_s is negative": 1,
        "tenant is empty": 1,
    }
    fractional = [row for row in rows if row["start_s"] and float(row["gpus"]) < 1]
    assert len(fractional) > 30
    lasted = sum((float(row["end_s"]) - float(row["start_s"])) * float(row["gpus"]) for row in rows if row["start_s"])
    assert math.fsum(job.gpu_seconds for job in jobs) == pytest.approx(lasted)  # shares of a GPU are kept as they are


def attempt(start, end, gpus=8):
    return {"start_time": start, "end_time": end, "detail": [{"ip": "m1", "gpus": [f"gpu{n}" for n in range(gpus)]}]}


def logged(name, submitted, *attempts):
    return {
        "jobid": name,
        "vc": "vc1",
        "user": "u",
        "status": "Pass",
        "submitted_time": submitted,
        "attempts": attempts,
    }


TWICE = logged(
    "twice",
    "2017-10-07 01:11:39",
    attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23"),
    attempt("2017-10-07 01:13:30", "2017-10-09 06:53:12"),
)


def test_a_job_that_was_started_twice_ran_for_both_and_not_for_the_gap():
    """S10. msr-fiddle/philly-traces; ai-dynamo/aisimulate PR#183."""
    ran = ran_of(TWICE)

    assert (ran.wait_seconds, ran.run_seconds) == (30, 74 + 193_182)
    assert ran.gpu_seconds == 8 * (74 + 193_182)


def test_jobs_without_an_attempt_an_end_or_a_forward_clock_are_told_and_not_waited_for(tmp_path):
    """S10: nothing is clamped; a night whose clock was set back is flagged with its -2400 s."""
    log = [
        TWICE,
        logged("never", "2017-10-07 02:00:00"),
        logged("running", "2017-10-07 02:00:00", attempt("2017-10-07 02:01:00", None)),
        logged("night", "2017-11-05 01:40:00", attempt("2017-11-05 01:50:00", "2017-11-05 01:10:00")),
        logged("early", "2017-11-05 01:50:00", attempt("2017-11-05 01:10:00", "2017-11-05 03:00:00")),
        logged("nowhen", "None", attempt("2017-11-05 01:10:00", "2017-11-05 03:00:00")),
        logged("later", "2017-10-07 01:12:39", attempt("2017-10-07 01:13:00", "2017-10-07 01:14:00", 1)),
    ]
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps(log))
    jobs, report = read_philly(path)

    assert [(job.job, job.owner, job.at_seconds, job.gpu_seconds) for job in jobs] == [
        ("twice", "vc1", 0, 8 * 193_256),
        ("later", "vc1", 60, 60),
    ]
    assert report.accepted + sum(count for _, count, _ in report.rejected) == report.lines == 7
    reasons = [reason for reason, _, _ in report.rejected]
    assert any("never ran" in reason for reason in reasons)
    assert any("still running" in reason for reason in reasons)
    assert any("submitted_time is missing" in reason for reason in reasons)
    assert sum("(-2400 s)" in reason for reason in reasons) == 2


def test_an_arrival_without_a_time_is_refused_by_its_line_and_the_queue_is_kept(tmp_path):
    """S10: missing or NaN."""
    path = tmp_path / "t.csv"
    for value in ("", "nan"):
        path.write_text(f"submit_s,duration_s,gpus,tenant\n1,10,1,a\n{value},10,1,b\n")
        with pytest.raises(BadInput, match="line 3: submit_s is"):
            read_trace(path)
        jobs, _ = read_trace(path, rejected="skip")
        assert [job.owner for job in jobs] == ["a"]


def test_microseconds_since_1970_begin_at_0_and_it_is_said(tmp_path):
    """S11. inference-sim/inference-sim#1606, #845; locustio/locust PR#3510."""
    path = tmp_path / "t.csv"
    path.write_text(
        "submit_s,steps,tenant,job\n"
        + "".join(f"{1.787e15 + at * 0.2e6:.0f},1,a,j{at}\n" for at in (0, 1, 2, 3))
        + f"{1.787e15 + 3 * 0.2e6:.0f},1,a,same-time\n"
    )
    jobs, report = read_trace(path)

    assert [job.at_seconds for job in jobs] == pytest.approx([0, 0.2, 0.4, 0.6, 0.6])
    assert [job.job for job in jobs][-2:] == ["j3", "same-time"]  # equal times keep the order of the file
    assert "taken as microseconds since 1970 and shifted" in report.notes[0]
    path.write_text("submit_s,steps,tenant,job\n1,1,a,x\n2,1,a,x\n")
    with pytest.raises(BadInput, match="the name 'x' stands twice"):
        read_trace(path)
    path.write_text("submit_s,steps,tenant\n0,1,a\n400000,1,a\n")
    with pytest.raises(BadInput, match="beyond the horizon of 3600 s; check the unit"):
        read_trace(path, horizon_seconds=3600)


def test_five_a_second_for_ten_minutes_are_three_thousand_and_the_last_ones_are_not_cut():
    """S11: rate and gap are not swapped, the last stage is played to its end."""
    times = poisson_times(5 * 3600, 600, seed=0)

    assert abs(len(times) - 3000) <= 220
    assert (times[1:] - times[:-1]).mean() == pytest.approx(0.2, rel=0.05)
    assert 595 < times[-1] < 600
