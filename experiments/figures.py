"""Figures as pure functions of results: the same data give the same bytes.

Values that cannot be drawn (not a number, infinite, negative; zero on a logarithmic axis) are left out and counted in
the caption. Colours are those of Okabe and Ito, which colour-blind people can tell apart, in an order that also
differs in brightness.
"""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lobra.errors import BadInput
from lobra.files import write_atomically
from lobra.plan import DeploymentPlan
from lobra.trace import StepReport

FORMATS = ("png", "pdf", "svg")
PARTS = (("useful tokens", "#0072B2"), ("padding", "#E69F00"), ("idle", "#D9D9D9"))
KINDS = {
    "forward": "#56B4E9",
    "backward": "#0072B2",
    "transfer": "#009E73",
    "synchronise": "#D55E00",
    "wait": "#CC79A7",
    "solve": "#F0E442",
    "deploy": "#E69F00",
}
LANES = 64  # of a timeline; more could not be read
STYLE: Any = {
    "svg.hashsalt": "lobra",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # letters stay letters
}
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
}


def save(drawn: Figure, path: Path, kind: str = "png") -> None:
    """Write a figure, whole or not at all, without dates and versions."""
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        drawn.savefig(buffer, format=kind, dpi=150, metadata=METADATA[kind])
    write_atomically(path, buffer.getvalue())


def compare_figure(summary: dict[str, Any], scale: str = "linear") -> Figure:
    """GPU seconds a step of each policy with their interval; on a linear axis split into useful, padding and idle."""
    policies = _policies(summary)
    shown = {name: body for name, body in policies.items() if drawable(body.get("gpu_seconds"), scale)}
    drawn, axes = _canvas(7.0, 1.4 + 0.28 * max(1, len(shown)))
    places = range(len(shown))
    for place, body in zip(places, shown.values(), strict=True):
        total = float(body["gpu_seconds"])
        if scale == "linear":
            left = 0.0
            for (_, colour), share in zip(PARTS, _shares(body), strict=True):
                axes.barh(place, share * total, left=left, color=colour, height=0.7, linewidth=0)
                left += share * total
        else:
            axes.plot([total], [place], "o", color=PARTS[0][1])
        interval = body.get("interval")
        if interval and all(drawable(end, scale) for end in interval):
            axes.plot(interval, [place, place], color="black", linewidth=1.2, marker="|", markersize=5)
    axes.set_yticks(list(places), list(shown))
    axes.invert_yaxis()
    if scale == "log" and shown:
        axes.set_xscale("log")
    elif not any(float(body["gpu_seconds"]) > 0 for body in shown.values()):
        axes.set_xlim(0, 1)
    axes.set_xlabel("GPU seconds per step (bars: mean; lines: 90 % interval of the mean)")
    if scale == "linear":
        handles = [mpl.patches.Patch(color=colour, label=label) for label, colour in PARTS]
        axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    _caption(drawn, [name for name in policies if name not in shown])
    return drawn


def timeline_figure(plan: DeploymentPlan, report: StepReport) -> Figure:
    """What every stage of every replica does in one step, from its beginning."""
    spans = [span for span in report.spans if math.isfinite(span.start) and span.end >= span.start]
    origin = min((span.start for span in spans), default=0.0)
    lanes = [(i, stage) for i, replica in enumerate(plan.replicas) for stage in range(replica.config.pp)]
    shown = lanes[:LANES]
    place = {lane: number for number, lane in enumerate(shown)}
    drawn, axes = _canvas(8.0, 1.4 + 0.22 * len(shown))
    for kind, colour in KINDS.items():
        for lane, row in place.items():
            pieces = [
                (s.start - origin, s.end - s.start) for s in spans if (s.replica, s.stage) == lane and s.kind == kind
            ]
            axes.broken_barh(pieces, (row - 0.4, 0.8), color=colour, edgecolor="white", linewidth=0.2)
    axes.set_yticks(range(len(shown)), [f"{i} {plan.replicas[i].config} stage {stage}" for i, stage in shown])
    axes.invert_yaxis()
    axes.set_xlim(0, max((span.end - origin for span in spans), default=1.0) or 1.0)
    axes.set_xlabel(f"seconds from the beginning of step {report.step}")
    used = [kind for kind in KINDS if any(span.kind == kind for span in spans)]
    handles = [mpl.patches.Patch(color=KINDS[kind], label=kind) for kind in used]
    if handles:
        axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), frameon=False)
    hidden = f"{len(lanes) - LANES} more stages not shown" if len(lanes) > LANES else ""
    lost = f"{len(report.spans) - len(spans)} spans left out" if len(spans) < len(report.spans) else ""
    _text(drawn, "; ".join(text for text in (hidden, lost) if text))
    return drawn


def drawable(value: Any, scale: str = "linear") -> bool:
    """Whether an axis of that scale has a place for it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return value > 0 if scale == "log" else value >= 0


def _policies(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    policies = summary.get("policies")
    if not isinstance(policies, dict) or not all(isinstance(body, dict) for body in policies.values()):
        raise BadInput("$.policies: expected an object with one object a policy; give the directory of a comparison")
    return policies


def _shares(body: dict[str, Any]) -> tuple[float, float, float]:
    """Shares of the bill: computing useful tokens, computing padding, idling."""
    padding, idle = (min(1.0, float(body[key])) if drawable(body.get(key)) else 0.0 for key in ("padding", "idle"))
    return (1 - idle) * (1 - padding), (1 - idle) * padding, idle


def _canvas(width: float, height: float) -> tuple[Figure, Any]:
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(width, min(height, 40.0)), layout="constrained")
        FigureCanvasAgg(drawn)
        return drawn, drawn.add_subplot()


def _caption(drawn: Figure, left_out: Sequence[str]) -> None:
    if left_out:
        _text(drawn, f"{len(left_out)} without a figure that can be drawn, left out: {', '.join(left_out)}")


def _text(drawn: Figure, text: str) -> None:
    if text:
        drawn.supxlabel(text, fontsize=7, parse_math=False)
