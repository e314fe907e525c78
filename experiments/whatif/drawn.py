"""Charts of a fleet as data: where GPU hours go, and one step of a plan, replica by replica."""

from collections import Counter

from experiments.capacity.oracle import Kinds, Oracle
from experiments.whatif.answer import Chart, Series, Sheet
from lobra.plan import DeploymentPlan
from policies.policy import step_plan
from sim.fleet.nouns import Split
from sim.simulator import Simulator

LEAST = 1e-9  # of the whole; less is rounding
SHOWN = 24  # replicas of a timeline at most; the first of each shape come first
WORDS = {
    "useful": "tokens that train",
    "padding": "filling up",
    "bubble": "pipelines filling and draining",
    "idle": "waiting for the slowest, or unused",
    "planning": "re-planning that training does not hide",
    "synchronisation": "summing gradients",
    "redeployment": "deploying and moving",
    "failed": "lost with nodes, and checkpoints against it",
}


def split_sheet(split: Split) -> Sheet:
    """GPU hours by what they were spent on, and their part."""
    total = split.total
    rows = tuple(
        (name, hours, 100 * hours / total, WORDS[name])
        for name, hours in split._asdict().items()
        if hours > LEAST * total
    )
    return Sheet("where GPU hours go", ("part", "GPU h", "%", "what"), rows)


def split_chart(bars: dict[str, Split], title: str = "where GPU hours go") -> Chart:
    """One stacked bar each."""
    parts = [
        name for name in Split._fields if any(getattr(split, name) > LEAST * split.total for split in bars.values())
    ]
    series = tuple(Series(name, tuple(bars), tuple(getattr(split, name) for split in bars.values())) for name in parts)
    first, split = next(iter(bars.items()))
    told = ", ".join(f"{name} {100 * getattr(split, name) / split.total:.3g} %" for name in parts)
    return Chart("stacked", title, "", "GPU hours", series, f"{first}: {told}")


def plan_sheet(plan: DeploymentPlan, title: str) -> Sheet:
    """The replicas of a plan, equal ones counted."""
    counts = Counter((replica.config, replica.budget) for replica in plan.replicas)
    rows = tuple((count, c.tp, c.pp, c.gpus * count, budget) for (c, budget), count in sorted(counts.items()))
    return Sheet(title, ("replicas", "tp", "pp", "GPUs", "tokens of a micro-batch"), rows)


def timeline(oracle: Oracle, kinds: Kinds, plan: DeploymentPlan) -> Chart:
    """One step of these tenants on this plan, as the simulator plays it."""
    judge = oracle.judge(kinds)
    step = step_plan(judge.batches[0], plan, judge.batching, judge.dispatch, judge.cost)
    (report,) = Simulator(judge.cost, check=False).play([plan, step])
    names = {
        number: f"{number}: tp {replica.config.tp} pp {replica.config.pp}"
        for number, replica in enumerate(plan.replicas)
    }
    chosen = dict.fromkeys(_first_of_each(plan))
    chosen.update(dict.fromkeys(names))
    shown = sorted(list(chosen)[:SHOWN])
    start = min((span.start for span in report.spans), default=0.0)
    series = []
    for kind in ("forward", "backward", "transfer", "synchronise"):
        spans = [span for span in report.spans if span.kind == kind and span.replica in shown and span.stage == 0]
        if spans:
            series.append(
                Series(
                    kind,
                    tuple(span.start - start for span in spans),
                    tuple(span.end - span.start for span in spans),
                    rows=tuple(names[span.replica] for span in spans),
                )
            )
    left = f"; {len(names) - len(shown)} replicas more are not shown" if len(names) > len(shown) else ""
    tells = f"a step of {report.seconds:.3g} s on {len(names)} replicas, first stages{left}"
    return Chart("timeline", "one step, replica by replica", "seconds", "replica", tuple(series), tells)


def _first_of_each(plan: DeploymentPlan) -> list[int]:
    first: dict[object, int] = {}
    for number, replica in enumerate(plan.replicas):
        first.setdefault(replica.config, number)
    return list(first.values())
