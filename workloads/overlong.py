"""Sequences beyond the context limit: refused, cut or left out, by one declared policy, and counted.

reject: such a sequence is an error. truncate: it is cut at its end, and loses the labels it had there. drop: it is left
out of its batch, which is smaller by one; its index is not given to another.
"""

from typing import NamedTuple

import numpy as np

from lobra.batch import Array, Histogram
from lobra.errors import Infeasible
from lobra.spec import Tenant
from workloads.sources import Drawn, Source


class Admitted(NamedTuple):
    """What is left of the sequences of a step, and how many were cut or left out."""

    drawn: Drawn
    truncated: int
    dropped: int


def admit(tenant: Tenant, drawn: Drawn) -> Admitted:
    """The sequences under the tenant's policy; Infeasible where one is over-long and the policy is reject."""
    limit = tenant.context_limit
    over = drawn.length > limit
    count = int(over.sum())
    if not count:
        return Admitted(drawn, 0, 0)
    if tenant.overlong == "reject":
        raise _too_long(tenant, int(drawn.length.max()))
    if tenant.overlong == "drop":
        return Admitted(Drawn(*(column[~over] for column in drawn)), 0, count)
    cut = np.maximum(drawn.length - limit, 0)
    return Admitted(Drawn(drawn.index, drawn.length - cut, np.maximum(drawn.labels - cut, 0)), count, 0)


def admitted_histogram(tenant: Tenant, lengths: Array, probabilities: Array) -> Histogram:
    """The lengths [n] under the tenant's policy; Infeasible where none is left."""
    fits = lengths <= tenant.context_limit
    inside = float(probabilities[fits].sum())
    kept, weights = lengths[fits], probabilities[fits]
    if tenant.overlong == "truncate" and not fits.all():
        kept, weights = np.append(kept, tenant.context_limit), np.append(weights, probabilities[~fits].sum())
        if len(kept) > 1 and kept[-2] == kept[-1]:
            kept, weights = kept[:-1], np.append(weights[:-2], weights[-2] + weights[-1])
    elif inside <= 0:
        raise Infeasible(
            f"tenant '{tenant.name}': each of its sequences is longer than its limit of {tenant.context_limit} tokens; "
            "raise context_limit (or max_length), or truncate"
        )
    possible = weights > 0
    return Histogram(kept[possible], weights[possible] / weights.sum())


def refuse_certain(tenant: Tenant, source: Source) -> None:
    """Infeasible where the policy is reject, and an over-long sequence is certain to come."""
    longest = source.certain_longest
    if tenant.overlong == "reject" and longest is not None and longest > tenant.context_limit:
        raise _too_long(tenant, longest)


def _too_long(tenant: Tenant, length: int) -> Infeasible:
    return Infeasible(
        f"tenant '{tenant.name}': a sequence of {length} tokens is longer than its limit of {tenant.context_limit}; "
        "raise context_limit (or max_length), or set overlong to truncate or drop"
    )
