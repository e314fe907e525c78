"""Layer times of ranks that are alone, for a simulator that shares cores itself.

A planner needs one factor for a whole step: all ranks are busy. A simulator can do better: a rank that waits frees its
part of a core. It takes the times of a rank alone and the factor of all ranks busy, both of the same file.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from costmodel.fitted import FittedCost, contention
from costmodel.sources import field
from lobra.errors import BadInput
from lobra.protocols import CostModel


def core_factors(source: Mapping[str, Any]) -> tuple[int, dict[int, float]]:
    """The ranks that were busy at once in the profile, and by tp how much slower they all were."""
    known = {int(field(fit, "tp")): fit["contention"] for fit in field(source, "fits") if fit.get("contention")}
    if not known:
        raise BadInput("cost file: it holds no contention; profile on more ranks than one and fit again")
    ranks = {int(field(row, "ranks")) for row in known.values()}
    return max(ranks), {tp: max(1.0, float(field(row, "factor"))) for tp, row in known.items()}


def alone(cost: CostModel, source: Mapping[str, Any]) -> FittedCost:
    """The cost model of the same file with the layer times of ranks that are alone."""
    if not isinstance(cost, FittedCost):
        raise BadInput("sharing cores: it needs layer times that `lobra fit` wrote; use cost=fitted cost.file=FILE")
    layered = cost.layered
    factors = {int(field(fit, "tp")): contention(fit, layered.cluster) for fit in field(source, "fits")}
    prices = {
        key: price._replace(
            floor=price.floor / factors[key[0]],
            fixed=price.fixed / factors[key[0]],
            run=price.run / factors[key[0]],
            token=price.token / factors[key[0]],
            square=price.square / factors[key[0]],
        )
        for key, price in layered.prices.items()
    }
    return replace(cost, layered=replace(layered, prices=prices))
