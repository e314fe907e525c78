"""Plots and exported traces: faults that others met, kept out here."""

import json
import math

import pytest

import toys
from experiments.chrome import chrome_events, chrome_json
from experiments.figures import compare_figure, save, timeline_figure
from lobra.errors import BadInput
from lobra.trace import Span, StepReport

SERIES = {
    "zero, small, not a number, infinite": [0.0, 1e-4, math.nan, math.inf],
    "all zero": [0.0, 0.0, 0.0],
    "empty": [],
    "one point": [3.5],
}
LEFT_OUT = {
    ("zero, small, not a number, infinite", "linear"): 2,
    ("zero, small, not a number, infinite", "log"): 3,
    ("all zero", "log"): 3,
}


def summary(values):
    body = {"interval": None, "padding": 0.1, "idle": 0.2}
    return {"policies": {f"policy {i}": body | {"gpu_seconds": value} for i, value in enumerate(values)}}


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("name", SERIES)
def test_any_series_gives_a_figure_and_what_cannot_be_drawn_is_counted(tmp_path, name, scale, kind):
    """conbench/conbench#1263, openturns/openturns#3032, matplotlib#5938, #7493, rapidchiplet#2."""
    drawn = compare_figure(summary(SERIES[name]), scale)
    save(drawn, tmp_path / f"figure.{kind}", kind)
    assert (tmp_path / f"figure.{kind}").stat().st_size > 1000
    caption = drawn.get_supxlabel()
    count = LEFT_OUT.get((name, scale), 0)
    assert caption.startswith(f"{count} without a figure that can be drawn") if count else caption == ""


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_data_give_the_same_bytes(tmp_path, kind):
    """matplotlib#23693, flashinfer-bench PR#416."""
    for name in ("first", "second"):
        save(compare_figure(summary([1.0, 2.0])), tmp_path / name, kind)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_an_interval_or_share_that_is_no_number_does_not_spoil_the_figure(tmp_path):
    """conbench/conbench#1263."""
    body = {"gpu_seconds": 2.0, "interval": [math.nan, 3.0], "padding": math.nan, "idle": None}
    save(compare_figure({"policies": {"p": body, "q": {"failed": "no", "exit_code": 2}}}), tmp_path / "f.png")
    assert (tmp_path / "f.png").exists()


def test_a_timeline_without_spans_is_drawn(tmp_path):
    """matplotlib#5938."""
    plan = toys.plan((4, 2, 1))
    save(timeline_figure(plan, StepReport(0, 1.0, 16, 0.0, 0, 0)), tmp_path / "f.png")
    broken = (Span(0, 0, 0, "forward", math.nan, 1.0), Span(0, 1, 0, "forward", 0.0, 1.0))
    drawn = timeline_figure(plan, StepReport(0, 1.0, 16, 0.0, 0, 0, broken))
    save(drawn, tmp_path / "g.png")
    assert drawn.get_supxlabel() == "1 spans left out"


def test_a_timeline_of_many_stages_says_how_many_it_leaves_out(tmp_path):
    """A cluster of thousands cannot be read on one page."""
    plan = toys.plan((1, 1, 16))
    plan = type(plan)(plan.model, toys.cluster(10, 8), plan.tenants, toys.replicas((1, 1, 80)))
    drawn = timeline_figure(plan, StepReport(0, 1.0, 80, 0.0, 0, 0, (Span(79, 0, 0, "forward", 0.0, 1.0),)))
    save(drawn, tmp_path / "f.png")
    assert drawn.get_supxlabel() == "16 more stages not shown"


def test_a_summary_of_another_shape_is_refused():
    """A file that is JSON, yet no comparison, gets no traceback."""
    with pytest.raises(BadInput, match=r"\$\.policies"):
        compare_figure({"schema": 1, "policies": [1, 2]})


def slices(*spans):
    report = StepReport(0, 1.0, 16, 0.0, 0, 0, spans)
    return [event for event in chrome_events(toys.plan((4, 2, 1)), [report]) if event["ph"] == "X"]


def test_times_of_an_exported_trace_are_microseconds():
    """triton-lang/triton PR#7663, pytorch/pytorch#188481."""
    (event,) = slices(Span(0, 0, 3, "forward", 0.25, 0.2515))
    assert (event["ts"], event["dur"], event["name"]) == (250000.0, 1500.0, "forward 3")


def test_what_overlaps_gets_a_track_of_its_own():
    """google/perfetto#432: overlapping slices on one track change durations."""
    events = slices(
        Span(0, 0, 0, "forward", 0.0, 1.0),
        Span(0, 0, 0, "transfer", 0.5, 1.5),
        Span(0, 0, 1, "transfer", 1.0, 2.0),
        Span(0, 0, 1, "forward", 1.0, 2.0),
        Span(0, 0, 1, "transfer", 1.5, 1.75),
    )
    tracks = {}
    for event in events:
        tracks.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert len(tracks) == 3
    for pieces in tracks.values():
        assert all(later[0] >= earlier[1] for earlier, later in zip(sorted(pieces), sorted(pieces)[1:], strict=False))
    assert sum(event["dur"] for event in events) == pytest.approx(4.25e6)


def test_operations_of_no_length_are_kept():
    """bluepill#437."""
    events = slices(Span(0, 1, 0, "forward", 0.0, 0.0), Span(0, 1, 0, "backward", 0.0, 0.0))
    assert [event["dur"] for event in events] == [0.0, 0.0]


def test_an_exported_trace_is_strict_json():
    """bluepill#437: nan in trace JSON."""
    text = chrome_json(toys.plan((8, 1, 1)), [StepReport(0, 1.0, 16, 0.0, 0, 0, (Span(0, 0, 0, "wait", 0.0, 1.0),))])

    def refuse(name):
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refuse)["displayTimeUnit"] == "ms"
