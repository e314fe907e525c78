"""What `lobra compare` found, as an answer: policies side by side on the same batches."""

from typing import Any, cast, get_args

from experiments.tables import footnotes, plan_text
from experiments.whatif.answer import Answer, Basis, Cell, Chart, Figure, Series, Sheet, weakest

ASKS = "Which policy trains these tenants with the fewest GPU seconds?"
COLUMNS = (
    "policy",
    "GPU s a step",
    "low",
    "high",
    "step s",
    "saves %",
    "saves low %",
    "saves high %",
    "padding %",
    "idle %",
    "basis",
    "plan",
)


def comparison(summary: dict[str, Any], run: dict[str, Any]) -> Answer:
    """The answer of a comparison's summary and of its `run.json`."""
    played = {name: each for name, each in summary["policies"].items() if "failed" not in each}
    if not played:
        raise ValueError("no policy was played")
    best = min(played, key=lambda name: played[name]["gpu_seconds"])
    notes = [line for line in footnotes(summary) if not line.startswith("note: ")]
    bases = [each["status"] for each in played.values()]
    known = [cast(Basis, each) if each in get_args(Basis) else "roofline" for each in bases]
    return Answer(
        "compare",
        ASKS,
        "told",
        (_sentence(summary, played, best), *notes),
        _figures(played, best),
        (Sheet("by policy", COLUMNS, tuple(_row(name, each) for name, each in summary["policies"].items())),),
        (_chart(played, best),),
        weakest(known),
        any("extrapolated" in note for each in played.values() for note in each["notes"]),
        _provenance(played, run),
    )


def _sentence(summary: dict[str, Any], played: dict[str, Any], best: str) -> str:
    said = f"{best} takes the fewest GPU seconds: {played[best]['gpu_seconds']:.4g} a step"
    saved = played[best]["reduction"]
    if saved is None or best == summary["baseline"]:
        return f"{said}."
    return f"{said}, {100 * saved:.3g} % fewer than {summary['baseline']}."


def _figures(played: dict[str, Any], best: str) -> tuple[Figure, ...]:
    found, batches = played[best], len(played[best]["gpu_seconds_per_step"])
    low, high = found["interval"] or (None, None)
    figures = [
        Figure(f"GPU seconds a step, {best}", found["gpu_seconds"], "GPU s", low, high, 0.9, batches),
    ]
    if found["reduction"] is not None:
        low, high = (None if end is None else 100 * end for end in found["reduction_interval"] or (None, None))
        figures.append(Figure(f"saved by {best}", 100 * found["reduction"], "%", low, high, 0.9, batches))
    return tuple(figures)


def _row(name: str, each: dict[str, Any]) -> tuple[Cell, ...]:
    if "failed" in each:
        return (name, *[None] * 9, "failed", each["failed"])
    low, high = each["interval"] or (None, None)
    less, more = each["reduction_interval"] or (None, None)
    percent = [None if part is None else 100 * part for part in (each["reduction"], less, more)]
    shares = [None if part is None else 100 * part for part in (each["padding"], each["idle"])]
    plan = plan_text(each["plan_summaries"])
    return (name, each["gpu_seconds"], low, high, each["step_seconds"], *percent, *shares, each["status"], plan)


def _chart(played: dict[str, Any], best: str) -> Chart:
    ends = [each["interval"] or (None, None) for each in played.values()]
    series = Series(
        "GPU seconds a step",
        tuple(played),
        tuple(each["gpu_seconds"] for each in played.values()),
        tuple(low for low, _ in ends),
        tuple(high for _, high in ends),
    )
    worst = max(played, key=lambda name: played[name]["gpu_seconds"])
    tells = (
        f"{len(played)} policies: fewest GPU seconds a step {best} with {played[best]['gpu_seconds']:.4g}, "
        f"most {worst} with {played[worst]['gpu_seconds']:.4g}"
    )
    return Chart("bar", "GPU seconds a step, by policy", "policy", "GPU seconds a step", (series,), tells)


def _provenance(played: dict[str, Any], run: dict[str, Any]) -> dict[str, str]:
    config = run["config"]
    notes = dict.fromkeys(note for each in played.values() for note in each["notes"])
    return {
        "model": str(config["model"]["name"]),
        "cluster": f"{config['cluster']['nodes']} nodes of {config['cluster']['gpus_per_node']} GPUs, "
        f"{config['cluster']['name']}",
        "seed": str(run["seed"]),
        "steps": str(config["steps"]),
        "costs": "; ".join(notes),
        "configuration": str(run["config_hash"]),
        "version": f"lobra {run['versions']['lobra']}, commit {run['git_commit'] or 'unknown'}",
    }
