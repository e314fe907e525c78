"""The same question with one assumption changed: prices of work, lengths, budgets, memory, links, arrivals."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.whatif.asking import Asked, on_cluster, with_workload
from lobra.errors import BadInput
from workloads.arrivals.nouns import Offer
from workloads.sampled import SampledWorkload
from workloads.sources import Endless, Rows
from workloads.table import LARGEST, LengthTable

Change = Callable[[Asked, float], Asked]

WORDS = {
    "work": "seconds of every micro-batch",
    "lengths": "length of every sequence, up to the context limits",
    "budgets": "steps of every tenant",
    "memory": "memory of a GPU",
    "links": "bandwidth between nodes",
    "arrivals": "arrivals an hour",
}


def change_of(name: str) -> Change:
    """What multiplies one assumption by a factor."""
    match name:
        case "work":
            return _work
        case "lengths":
            return _lengths
        case "budgets":
            return _budgets
        case "memory":
            return _memory
        case "links":
            return _links
        case "arrivals":
            return _arrivals
    raise BadInput(f"vary: there is no assumption {name!r}; choose {', '.join(WORDS)}")


def usual(asked: Asked) -> tuple[str, ...]:
    """All that apply."""
    stream = asked.config.arrivals.kind in ("poisson", "bursts")
    return tuple(name for name in WORDS if name != "arrivals" or stream)


def _work(asked: Asked, factor: float) -> Asked:
    return replace(asked, work_factor=asked.work_factor * factor)


def _lengths(asked: Asked, factor: float) -> Asked:
    team = asked.workload
    sources = tuple(longer(source, factor) for source in team.sources)
    return with_workload(asked, SampledWorkload(team.tenants, sources, team.seed, team.sampler), asked.offers)


def longer(source: Any, factor: float) -> Any:
    """A tenant's source with every length so many times as long; at least one token, rounded."""
    match source:
        case Endless():
            table = source.table
            longest = min(LARGEST, int(np.ceil(table.longest * factor)))
            tokens = np.floor((np.arange(1, longest + 1) + 0.5) / factor).astype(np.int64)
            cumulative = table.at_most(tokens)
            return Endless(LengthTable(np.append(cumulative[:-1], 1.0), table.bounded))
        case Rows():
            lengths = np.maximum(1, np.rint(source.lengths * factor).astype(np.int64))
            labels = np.minimum(lengths, np.rint(source.labels * factor).astype(np.int64))
            return Rows(lengths, labels, source.empty)
    raise BadInput("vary: the lengths of this workload cannot be changed; leave lengths out")


def _budgets(asked: Asked, factor: float) -> Asked:
    offers = tuple(_more(offer, factor) for offer in asked.offers)
    return replace(asked, offers=offers)


def _more(offer: Offer, factor: float) -> Offer:
    return replace(offer, budget=replace(offer.budget, amount=offer.budget.amount * factor))


def _memory(asked: Asked, factor: float) -> Asked:
    memory = asked.world.cluster.gpu.memory_gib * factor
    return on_cluster(asked, replace(asked.config.cluster, memory_gib=memory))


def _links(asked: Asked, factor: float) -> Asked:
    bandwidth = asked.world.cluster.inter_node.gigabytes_per_second * factor
    return on_cluster(asked, replace(asked.config.cluster, inter_gigabytes_per_second=bandwidth))


def _arrivals(asked: Asked, factor: float) -> Asked:
    arrivals = asked.config.arrivals
    if arrivals.per_hour is None:
        raise BadInput(f"vary: arrivals of kind {arrivals.kind} have no rate; leave arrivals out")
    changed = replace(arrivals, per_hour=arrivals.per_hour * factor)
    return replace(asked, config=replace(asked.config, arrivals=changed))
