"""Traces in other formats."""

import json

import pyarrow.parquet as pq
import pytest

import toys
from experiments.export import export
from experiments.schema_results import Export
from lobra.errors import BadInput
from lobra.stream import Writer
from lobra.trace import Span, StepReport
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.dispatch.uniform import Uniform
from policies.policy import step_plan
from sim.simulator import Simulator


@pytest.fixture
def run(tmp_path):
    """A run of two groups, pipelines included, as the simulator plays it."""
    cost = toys.ToyCost(transfer=1e-4, synchronise=1e-3)
    for group, shapes in enumerate((((4, 2, 1), (8, 1, 1)), ((2, 4, 2),))):
        plan = toys.plan(*shapes, budget=2048)
        batches = list(toys.workload().batches(2))
        steps = [step_plan(batch, plan, Padded(FixedBuckets((512, 4096))), Uniform(), cost) for batch in batches]
        plan = toys.plan(*shapes, budget=2048, tenants=toys.workload().tenants)
        with (
            Writer(tmp_path / str(group) / "directives.jsonl") as directives,
            Writer(tmp_path / str(group) / "trace.jsonl") as trace,
        ):
            for directive in (plan, *steps):
                directives.append(directive)
            for report in Simulator(cost).play([plan, *steps]):
                trace.append(report)
    return tmp_path


def chrome(run, group=0, **more):
    assert export(Export(run=str(run), format="chrome", **more)) == 0
    return json.loads((run / f"{group}.perfetto.json").read_text())["traceEvents"]


def test_processes_are_replicas_and_threads_are_stages(run):
    events = chrome(run)
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in slices} == {0, 1}
    assert {event["tid"] for event in slices if event["pid"] == 0 and event["cat"] == "forward"} == {0, 1}
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"replica 0 <4,2> GPUs 0-7", "replica 1 <8,1> GPUs 8-15"}


@pytest.mark.parametrize("group", [0, 1])
def test_slices_of_one_track_never_overlap_and_add_up_to_the_busy_time(run, group):
    slices = [event for event in chrome(run, group) if event["ph"] == "X"]
    ends: dict[tuple[int, int], float] = {}
    for event in sorted(slices, key=lambda event: (event["ts"], event["dur"])):
        track = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(track, 0.0) - 1e-6
        ends[track] = event["ts"] + event["dur"]
    from lobra import stream

    reports = list(stream.read(run / str(group) / "trace.jsonl"))
    for kind in ("forward", "backward", "transfer", "synchronise"):
        drawn = sum(event["dur"] for event in slices if event["cat"] == kind)
        spent = sum(span.end - span.start for report in reports for span in report.spans if span.kind == kind)
        assert drawn == pytest.approx(spent * 1e6, rel=1e-6)


def test_some_steps_may_be_chosen(run):
    events = chrome(run, first=1, steps=1)
    assert {event["args"]["step"] for event in events if event["ph"] == "X"} == {1}


def test_parquet_holds_a_row_a_step_and_a_row_a_span(run):
    assert export(Export(run=str(run), format="parquet")) == 0
    steps, spans = pq.read_table(run / "steps.parquet"), pq.read_table(run / "spans.parquet")
    assert steps.column("group").to_pylist() == [0, 0, 1, 1]
    assert steps.column("gpu_seconds").to_pylist() == pytest.approx(
        [16 * s for s in steps.column("seconds").to_pylist()]
    )
    from lobra import stream

    reports = [report for group in "01" for report in stream.read(run / group / "trace.jsonl")]
    assert spans.num_rows == sum(len(report.spans) for report in reports)
    first = reports[0].spans[0]
    assert spans.slice(0, 1).to_pylist()[0] == {
        "group": 0, "step": 0, "replica": first.replica, "stage": first.stage, "microbatch": first.microbatch,
        "kind": first.kind, "start_seconds": first.start, "end_seconds": first.end,
    }  # fmt: skip


def test_the_same_trace_gives_the_same_bytes(run):
    written = []
    for _ in range(2):
        export(Export(run=str(run), format="parquet"))
        export(Export(run=str(run), format="chrome"))
        written.append([(run / name).read_bytes() for name in ("steps.parquet", "spans.parquet", "0.perfetto.json")])
    assert written[0] == written[1]


def test_what_cannot_be_exported_is_refused_with_the_way_out(run, tmp_path):
    (tmp_path / "comparison").mkdir()
    run_of_policy = tmp_path / "comparison" / "lobra"
    run_of_policy.mkdir()
    (run / "0").rename(run_of_policy / "0")
    with pytest.raises(BadInput, match=r"run=\S+comparison/lobra"):
        export(Export(run=str(tmp_path / "comparison")))
    with pytest.raises(BadInput, match="choose from chrome, parquet"):
        export(Export(run=str(run_of_policy), format="csv"))
    with pytest.raises(BadInput, match="is no directory"):
        export(Export(run=str(tmp_path / "nothing")))
    with pytest.raises(BadInput, match="first counts from 0"):
        export(Export(run=str(run_of_policy), first=-1))


def test_a_broken_line_of_a_trace_is_named(run):
    trace = run / "0" / "trace.jsonl"
    lines = trace.read_text().splitlines()
    trace.write_text("\n".join([lines[0], lines[1][:50], *lines[2:]]) + "\n")
    with pytest.raises(BadInput, match=r"trace\.jsonl, line 2: not JSON"):
        export(Export(run=str(run)))


def test_a_trace_may_hold_nothing(tmp_path):
    with Writer(tmp_path / "0" / "directives.jsonl") as writer:
        writer.append(toys.plan((8, 1, 1)))
    with Writer(tmp_path / "0" / "trace.jsonl") as writer:
        writer.append(StepReport(0, 0.0, 16, 0.0, 0, 0, (Span(0, 0, 0, "forward", 0.0, 0.0),)))
    (event,) = [event for event in chrome(tmp_path) if event["ph"] == "X"]
    assert (event["ts"], event["dur"]) == (0.0, 0.0)
