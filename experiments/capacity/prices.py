"""A price book: what a GPU hour costs; every row has a unit, a source and the day it was read.

Nothing is guessed. A row without a source or a day is refused by name, a price that is not there refuses the question
that asks for it, and what a provider takes for storage or egress is unknown until a row says it. Providers bill whole
nodes, so a row knows how many GPUs its node has and how many nodes must be taken at least.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

from lobra.errors import BadInput
from lobra.spec import positive
from workloads.strict_yaml import nearest, show

Kind = Literal["on_demand", "spot", "reserved"]
Unit = Literal["gpu_hour", "node_hour", "gpu_month"]
What = Literal["storage", "egress"]

MONTH_HOURS = 730  # 365 days of 24 hours over 12 months
DAY = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])(-[0-9]{2})?")
LINE_UNIT: dict[What, str] = {"storage": "gb_month", "egress": "gb"}


@dataclass(frozen=True, slots=True)
class Price:
    """One offer."""

    gpu: str
    provider: str
    amount: float  # in the book's currency, per unit
    unit: Unit
    kind: Kind
    gpus_per_node: int
    source: str
    read_on: str  # YYYY-MM-DD, or YYYY-MM where the day is not known
    discount: float = 0.0  # taken off the amount: 0.4 leaves 60 %
    minimum_nodes: int = 1  # that must be taken
    notice_seconds: float | None = None  # before a spot node goes; None: not told

    def __post_init__(self) -> None:
        owner = self.name
        _told(owner, self.source, self.read_on)
        one_of(owner, "unit", self.unit, get_args(Unit))
        one_of(owner, "kind", self.kind, get_args(Kind))
        positive(owner, amount=self.amount, gpus_per_node=self.gpus_per_node, minimum_nodes=self.minimum_nodes)
        if not 0 <= self.discount < 1:
            raise BadInput(f"{owner}: discount is {self.discount}; it is a part of the price, from 0 to below 1")
        if self.notice_seconds is not None and not 0 <= self.notice_seconds < math.inf:
            raise BadInput(f"{owner}: notice_seconds is {self.notice_seconds}; it must be 0 or more")

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"price of {self.gpu} at {self.provider} ({self.kind})"

    @property
    def per_gpu_hour(self) -> float:
        """Of one GPU in one hour, the discount taken off."""
        gpu_hours = {"gpu_hour": 1, "node_hour": self.gpus_per_node, "gpu_month": MONTH_HOURS}[self.unit]
        return self.amount * (1 - self.discount) / gpu_hours

    @property
    def cited(self) -> str:
        """The row as provenance."""
        off = f" less {self.discount:.0%}" if self.discount else ""
        return f"{self.amount:g} per {self.unit}{off}, read {self.read_on}: {self.source}"

    def nodes(self, gpus: int) -> int:
        """That are billed for so many GPUs: whole nodes, and not fewer than the provider lets."""
        return max(self.minimum_nodes, -(-gpus // self.gpus_per_node))

    def billed_gpus(self, gpus: int) -> int:
        """GPUs that are paid for where so many are used."""
        return self.nodes(gpus) * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class Line:
    """What is billed beside GPUs."""

    provider: str
    what: What
    amount: float  # storage: a GB (10^9 bytes) and month; egress: a GB
    unit: str
    source: str
    read_on: str

    def __post_init__(self) -> None:
        owner = f"price of {self.what} at {self.provider}"
        _told(owner, self.source, self.read_on)
        one_of(owner, "what", self.what, get_args(What))
        one_of(owner, "unit", self.unit, (LINE_UNIT[self.what],))
        if not 0 <= self.amount < math.inf:
            raise BadInput(f"{owner}: amount is {self.amount}; it must be a finite number, 0 or more")


@dataclass(frozen=True, slots=True)
class PriceBook:
    """All offers of one file, in one currency."""

    name: str
    currency: str
    offers: tuple[Price, ...]
    lines: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Z]{3}", self.currency):
            raise BadInput(f"prices '{self.name}': currency is {self.currency!r}; give three capital letters, as USD")
        _refuse_twice(self.name, [each.name for each in self.offers])
        _refuse_twice(self.name, [f"price of {each.what} at {each.provider}" for each in self.lines])

    def find(self, gpu: str, provider: str, kind: Kind = "on_demand") -> Price:
        """The one offer; BadInput where there is none, for a price is never guessed."""
        for offer in self.offers:
            if (offer.gpu, offer.provider, offer.kind) == (gpu, provider, kind):
                return offer
        has = [f"{each.gpu} {each.kind}" for each in self.offers if each.provider == provider]
        known = (
            f"of {provider} there is {', '.join(has)}"
            if has
            else nearest(provider, self.providers(gpu, kind) or {"none"})
        )
        raise BadInput(
            f"prices '{self.name}': there is no {kind} price of {gpu} at {provider}, and none is guessed; {known}"
        )

    def providers(self, gpu: str, kind: Kind = "on_demand") -> tuple[str, ...]:
        """Who offers it, by name."""
        return tuple(sorted(each.provider for each in self.offers if (each.gpu, each.kind) == (gpu, kind)))

    def cheapest(self, gpu: str, kind: Kind = "on_demand") -> Price:
        """The offer with the lowest price of a GPU hour; BadInput where nobody offers it."""
        found = [each for each in self.offers if (each.gpu, each.kind) == (gpu, kind)]
        if not found:
            known = sorted({each.gpu for each in self.offers if each.kind == kind})
            raise BadInput(
                f"prices '{self.name}': there is no {kind} price of {gpu}, and none is guessed; "
                f"it knows {', '.join(known) or 'none'}"
            )
        return min(found, key=lambda each: (each.per_gpu_hour, each.provider))

    def line(self, provider: str, what: What) -> Line:
        """What this provider takes for it; BadInput where that is unknown."""
        for each in self.lines:
            if (each.provider, each.what) == (provider, what):
                return each
        raise BadInput(f"prices '{self.name}': what {provider} takes for {what} is unknown; add a line, or ask without")

    def unknown(self, provider: str) -> tuple[What, ...]:
        """What a bill of this provider leaves out because no row tells it."""
        told = {each.what for each in self.lines if each.provider == provider}
        return tuple(what for what in get_args(What) if what not in told)


def _told(owner: str, source: str, read_on: str) -> None:
    if not source.strip():
        raise BadInput(f"{owner}: source is empty; say where it was read")
    if DAY.fullmatch(read_on):
        try:
            date.fromisoformat(read_on if len(read_on) > len("2026-11") else f"{read_on}-01")
        except ValueError:
            pass
        else:
            return
    raise BadInput(f"{owner}: read_on is {read_on!r}; give the day as 2026-11-09, or the month as 2026-11")


def one_of(owner: str, field: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is none of these."""
    if value not in choices:
        raise BadInput(f"{owner}: {field} is {show(value)}; choose {', '.join(choices)}")


def _refuse_twice(book: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise BadInput(f"prices '{book}': the {name} stands twice; keep one")
        seen.add(name.casefold())
