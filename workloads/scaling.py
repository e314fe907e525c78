"""Batch sizes that add up to a given total, in the proportions of those declared."""

from collections.abc import Sequence
from dataclasses import replace

from lobra.errors import BadInput
from lobra.spec import Tenant


def with_total(tenants: Sequence[Tenant], total: int) -> list[Tenant]:
    """The tenants with batch sizes of this sum; BadInput where not everybody can have a sequence."""
    if type(total) is not int or total < len(tenants):
        raise BadInput(f"batch_size is {total!r}; it must be a whole number >= {len(tenants)}, one for each tenant")
    shares = apportion([tenant.batch_size for tenant in tenants], total)
    return [replace(tenant, batch_size=share) for tenant, share in zip(tenants, shares, strict=True)]


def apportion(weights: Sequence[int], total: int) -> list[int]:
    """Shares of at least 1 that sum to total, by largest remainder; of equal remainders the first wins.

    Who would get less than one gets one; the others share what is left by the same rule.
    """
    fixed: set[int] = set()
    while True:
        rest, weight = total - len(fixed), sum(w for i, w in enumerate(weights) if i not in fixed)
        small = {i for i, w in enumerate(weights) if i not in fixed and w * rest < weight}
        if not small:
            break
        fixed |= small
    free = [i for i in range(len(weights)) if i not in fixed]
    shares = [1 if i in fixed else weights[i] * rest // weight for i in range(len(weights))]
    by_remainder = sorted(free, key=lambda i: (-(weights[i] * rest % weight), i))
    for i in by_remainder[: total - sum(shares)]:
        shares[i] += 1
    return shares
