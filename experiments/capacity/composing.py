"""A fleet composed: arrivals, oracle, admission and decisions become one history, and the history becomes a bill."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.capacity.accounting import Bill, Charged, Rule, Weights, billed
from experiments.capacity.admission import Admission
from experiments.capacity.deciding import Decider
from experiments.capacity.oracle import Oracle
from experiments.capacity.weights import weights
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.protocols import Workload
from sim.fleet.fleet import Fleet
from sim.fleet.losses import Fragile
from sim.fleet.nouns import History, Job, Record
from workloads.arrivals.nouns import Arrival, ordered
from workloads.sampled import SampledWorkload

Plays = History[DeploymentPlan]


def jobs_of(
    arrivals: Sequence[Arrival],
    workload: Workload,
    sizes: Mapping[str, int] | None = None,
    known: dict[str, float] | None = None,
) -> tuple[Job, ...]:
    """Arrivals as the fleet sees them, by time: budgets in steps, tokens of a step by the tenants' histograms.

    `sizes`: sequences of a tenant's data set by name, for budgets in epochs; absent: its stream has no end. `known`:
    mean lengths by kind, filled in here, where many plays of the same offers are made.
    """
    number = {tenant.name: at for at, tenant in enumerate(workload.tenants)}
    means = {} if known is None else known  # by kind, or by name where an arrival has none
    jobs = []
    for arrival in ordered(arrivals):
        tenant = arrival.tenant
        kind = arrival.kind or tenant.name
        if kind not in means:
            histogram = workload.lengths(number[tenant.name])
            means[kind] = float(histogram.lengths @ histogram.probabilities)
        tokens = tenant.batch_size * means[kind]
        steps = arrival.budget.steps(tenant.batch_size, tokens, (sizes or {}).get(tenant.name))
        jobs.append(
            Job(
                tenant.name,
                arrival.at_seconds,
                steps,
                tokens,
                arrival.deadline_seconds,
                arrival.priority,
                arrival.owner or tenant.name,
            )
        )
    return tuple(jobs)


def workload_of(arrivals: Sequence[Arrival], offered: SampledWorkload) -> SampledWorkload:
    """Everybody who will ever come; each draws from the source of its kind, a tenant of `offered`."""
    sources = {tenant.name: source for tenant, source in zip(offered.tenants, offered.sources, strict=True)}
    for arrival in arrivals:
        if (arrival.kind or arrival.tenant.name) not in sources:
            raise BadInput(
                f"arrival of '{arrival.tenant.name}': there is no kind '{arrival.kind or arrival.tenant.name}'; "
                f"choose one of {', '.join(sources)}"
            )
    chosen = ordered(arrivals)
    return replace(
        offered,
        tenants=tuple(each.tenant for each in chosen),
        sources=tuple(sources[each.kind or each.tenant.name] for each in chosen),
    )


def kinds_of(arrivals: Iterable[Arrival]) -> dict[str, str]:
    """The kind of every tenant: the offer it was made from, else itself."""
    return {each.tenant.name: each.kind or each.tenant.name for each in arrivals}


def fleet_of(
    oracle: Oracle,
    admission: Admission,
    decider: Decider,
    *,
    period_seconds: float | None = None,
    until_seconds: float = math.inf,
    seed: int = 0,
    fragile: Fragile | None = None,
) -> Fleet[DeploymentPlan]:
    """The fleet of this cluster; plays any jobs of the oracle's tenants."""
    gpus = oracle.world.cluster.gpus
    return Fleet(gpus, oracle.step_time, admission, decider, period_seconds, until_seconds, seed, fragile)


def bill_of(history: Plays, oracle: Oracle, rule: Rule = "work", known: Weights | None = None) -> Bill:
    """Every GPU second of a history divided by the rule; what passed without a tenant is declared as idle.

    known: the rule's weights, where many histories of one oracle are billed: they are worked out once.
    """
    charges = [Charged(each.jobs, each.seconds * history.gpus) for each in history.intervals]
    return billed(charges, known or weights(oracle, rule), rule)


@dataclass(frozen=True, slots=True)
class Slowness:
    """What a tenant paid in time for training with others."""

    completion_seconds: float  # from its arrival
    alone_seconds: float  # the same steps by itself on the whole cluster, from its arrival

    @property
    def slowdown(self) -> float:
        """Completion over alone; the price of lock step and of waiting."""
        return self.completion_seconds / self.alone_seconds


def slowness(record: Record, oracle: Oracle) -> Slowness | None:
    """None where the tenant did not finish."""
    completion = record.completion_seconds
    if completion is None:
        return None
    return Slowness(completion, record.steps * oracle.alone_seconds(record.job.name))
