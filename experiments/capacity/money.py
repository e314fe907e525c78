"""From GPU seconds to money: whole nodes, reserved hours, storage and egress; shares and declared idle are the bill.

A provider bills whole nodes for as long as they are held, whether tenants train or not. GPU seconds in which tenants
were there are divided by the rule of accounting; the rest is declared, each part by its reason: no tenant was there,
GPUs of a node that the cluster does not use, hours reserved beyond the end. Storage and egress go to the tenant that
asks for them. A figure that rests on roofline costs is no quote, and says so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.capacity.accounting import Bill, Rule
from experiments.capacity.prices import Price, PriceBook
from lobra.errors import BadInput

NOT_A_QUOTE = "not a quote: it rests on roofline costs, nothing of this model on this GPU was measured"


@dataclass(frozen=True, slots=True)
class Extras:
    """What a tenant asks for beside GPUs."""

    storage_gb_months: float = 0.0
    egress_gb: float = 0.0

    def __post_init__(self) -> None:
        for name in ("storage_gb_months", "egress_gb"):
            if not 0 <= getattr(self, name) < math.inf:
                raise BadInput(f"extras: {name} is {getattr(self, name)}; it must be a finite number, 0 or more")


@dataclass(frozen=True, slots=True)
class Share:
    """What one tenant pays."""

    tenant: str
    gpus: float  # for its GPU seconds
    storage: float = 0.0
    egress: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return math.fsum((self.gpus, self.storage, self.egress))


@dataclass(frozen=True, slots=True)
class Idle:
    """What is paid and nobody's, by its reason."""

    no_tenant: float
    rest_of_node: float  # GPUs of whole nodes beyond those the cluster uses
    reserved: float  # hours beyond the end that were reserved all the same

    @property
    def total(self) -> float:
        """All of it."""
        return math.fsum((self.no_tenant, self.rest_of_node, self.reserved))


@dataclass(frozen=True, slots=True)
class Invoice:
    """A bill in money; shares and declared idle sum to its total."""

    price: Price
    currency: str
    rule: Rule
    hours: float  # that nodes were held, reserved ones included
    billed_gpus: int
    shares: tuple[Share, ...]  # by tenant's name
    idle: Idle
    total: float
    leaves_out: tuple[str, ...]  # storage, egress where the provider's price is unknown


def invoice(
    bill: Bill,
    gpus: int,
    price: Price,
    book: PriceBook,
    *,
    reserved_hours: float = 0.0,
    extras: Mapping[str, Extras] | None = None,
) -> Invoice:
    """The bill of a cluster of so many GPUs, held until the last step or as long as it was reserved.

    BadInput where somebody asks for storage or egress whose price is unknown.
    """
    if not 0 <= reserved_hours < math.inf:
        raise BadInput(f"invoice: reserved_hours is {reserved_hours}; it must be a finite number, 0 or more")
    rate, held = price.per_gpu_hour, bill.total / gpus / 3600
    hours, billed = max(held, reserved_hours), price.billed_gpus(gpus)
    shares = _shares(bill, rate / 3600, price.provider, book, extras or {})
    idle = Idle(bill.idle * rate / 3600, (billed - gpus) * held * rate, (hours - held) * billed * rate)
    beside = [part for share in shares for part in (share.storage, share.egress)]
    total = math.fsum((hours * billed * rate, *beside))
    return Invoice(price, book.currency, bill.rule, hours, billed, shares, idle, total, book.unknown(price.provider))


def _shares(bill: Bill, rate: float, provider: str, book: PriceBook, extras: Mapping[str, Extras]) -> tuple[Share, ...]:
    known = dict(bill.shares)
    for name in extras:
        if name not in known:
            raise BadInput(f"invoice: extras of '{name}', who is not on the bill; name one of {', '.join(known)}")
    made = []
    for name, seconds in bill.shares:
        more = extras.get(name, Extras())
        stored = more.storage_gb_months * book.line(provider, "storage").amount if more.storage_gb_months else 0.0
        sent = more.egress_gb * book.line(provider, "egress").amount if more.egress_gb else 0.0
        made.append(Share(name, seconds * rate, stored, sent))
    return tuple(made)


def per_million(money: float, useful_tokens: float) -> float:
    """Money for a million useful tokens; padding and idle time are in the money, not in the tokens."""
    if not useful_tokens > 0:
        raise BadInput(f"price of tokens: {useful_tokens} useful tokens were trained; at least one is needed")
    return money / useful_tokens * 1e6


def caveats(found: Invoice, basis: str) -> tuple[str, ...]:
    """Sentences that belong beside every figure of the invoice."""
    said = [NOT_A_QUOTE] if basis == "roofline" else []
    if found.leaves_out:
        said.append(f"without {' and '.join(found.leaves_out)}: what {found.price.provider} takes for it is unknown")
    if found.billed_gpus * found.hours > 0 and found.idle.rest_of_node > 0:
        said.append(f"{found.billed_gpus} GPUs are billed, for {found.price.provider} lets whole nodes only")
    return tuple(said)
