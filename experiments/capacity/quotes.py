"""What a tenant is told when it begins, what it pays in the end, and what it would have paid alone.

The quote takes it that whoever trains at the tenant's first step stays until its budget is used. Co-tenants that leave
earlier make what is left dearer (fewer share the pace of the slowest), those that join may make it cheaper or dearer;
planning and re-deployments are in the final bill only.
"""

from dataclasses import dataclass

from experiments.capacity.accounting import Bill, Overcharge, divided, overcharged
from experiments.capacity.composing import Plays
from experiments.capacity.oracle import Oracle
from experiments.capacity.weights import weights


@dataclass(frozen=True, slots=True)
class Quoted:
    """GPU seconds of one tenant."""

    tenant: str
    beside: tuple[str, ...]  # who trained at its first step
    quoted: float
    final: float

    @property
    def change(self) -> float:
        """The final bill over the quote, less one: 0.2 is 20 % more than quoted."""
        return self.final / self.quoted - 1


def quotes(history: Plays, oracle: Oracle, bill: Bill, factor: float = 1.0) -> tuple[Quoted, ...]:
    """Of every tenant that has used up its budget, by name; others have no final bill yet.

    factor: by how much steps of the history took longer than the oracle says.
    """
    weigh, final = weights(oracle, bill.rule), dict(bill.shares)
    steps = {each.job.name: each.job.steps for each in history.records if each.finish_seconds is not None}
    made: dict[str, Quoted] = {}
    for interval in history.intervals:
        if interval.phase != "train" or interval.plan is None:
            continue
        for name in interval.jobs:
            if name in steps and name not in made:
                seconds = factor * steps[name] * oracle.step_time(interval.jobs, interval.plan).mean * history.gpus
                quoted = divided(seconds, weigh(interval.jobs), interval.jobs)[name]
                made[name] = Quoted(name, tuple(each for each in interval.jobs if each != name), quoted, final[name])
    return tuple(made[name] for name in sorted(made))


def alone_gpu_seconds(history: Plays, oracle: Oracle, factor: float = 1.0) -> dict[str, float]:
    """What each tenant's steps so far would have cost by itself on the whole cluster, each on its own best plan."""
    return {
        each.job.name: factor * each.steps * oracle.alone_seconds(each.job.name) * history.gpus
        for each in history.records
        if each.steps
    }


def more_than_alone(history: Plays, oracle: Oracle, bill: Bill, factor: float = 1.0) -> tuple[Overcharge, ...]:
    """Who pays more than alone, and by how much, the worst first."""
    alone = alone_gpu_seconds(history, oracle, factor)
    return overcharged({name: share for name, share in bill.shares if name in alone}, alone)
