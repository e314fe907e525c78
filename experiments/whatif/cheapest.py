"""Question 3, `cheapest`: which GPU at which provider costs least for these tenants.

The team is planned and played anew on every kind of GPU, as many nodes of each, and billed by every offer in the
prices. Two offers of one GPU differ by their prices alone. Between GPUs, prices of work are off independently (each by
the deviation of what it rests on), so a rank is called separable only where the two intervals together allow it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.capacity.money import caveats, invoice, per_million
from experiments.capacity.price_file import read_prices
from experiments.capacity.prices import Kind, Price, PriceBook
from experiments.whatif.answer import Answer, Cell, Chart, Figure, Series, Sheet
from experiments.whatif.asking import Asked, Priced, kind_of, on_cluster
from experiments.whatif.numbers import plain, spread_figure
from experiments.whatif.playing import Played, play
from experiments.whatif.scoring import bills, completion, promised, useful_tokens
from experiments.whatif.sizing import in_hours
from experiments.whatif.standing import answered
from lobra.errors import BadInput, Infeasible

ASKS = "Which GPU at which provider is cheapest for these tenants?"
SURE = 1.645  # deviations: 5 % of a normal law lie beyond


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One offer for the whole team."""

    price: Price
    played: Played
    bill: Figure
    per_million: Figure
    finish: Figure  # p95, hours
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Of the offer."""
        return f"{self.price.gpu} at {self.price.provider}"


def answer(asked: Asked) -> Answer:
    """All offers, the cheapest first, and which ranks the uncertainty lets stand."""
    if asked.config.prices is None:
        raise BadInput("prices: a value is missing; cheapest needs them, give prices=2026-11 or a file of your own")
    book, kind = read_prices(asked.config.prices), kind_of(asked.config.offer)
    choices, refused = list[Choice](), list[str]()
    for name in asked.config.comparing.clusters:
        at = on_cluster(asked, replace(asked.config.cluster, name=name))
        offers = offers_of(at, book, kind)
        try:
            played = play(at)
        except Infeasible as error:
            refused.append(f"{at.world.cluster.gpu.name} does not serve them: {error}.")
            continue
        choices += [_choice(played, price, book) for price in offers]
    if not choices:
        raise Infeasible(f"no hardware of {', '.join(asked.config.comparing.clusters)} serves these tenants")
    ranked = sorted(choices, key=lambda each: (each.bill.value or 0.0, each.name))
    best = ranked[0]
    return answered(
        asked,
        [each.played.ground for each in ranked],
        "told",
        [*_sentences(ranked, book), *refused, *(f"{line}." for line in best.notes)],
        asks=ASKS,
        figures=[replace(best.bill, name="cheapest bill"), best.per_million, best.finish, *_spread(ranked)],
        sheets=[_sheet(ranked, book)],
        charts=[_chart(ranked, book)],
        priced=Priced(book, best.price),
        extra={"prices": {each.name: each.price.cited for each in ranked}},
    )


def offers_of(at: Asked, book: PriceBook, kind: Kind) -> list[Price]:
    """Of this hardware; BadInput where the prices know none."""
    gpu, provider = at.world.cluster.gpu.name, at.config.provider
    if provider is not None:
        return [book.find(gpu, provider, kind)]
    book.cheapest(gpu, kind)  # refuses where nobody offers it
    return [book.find(gpu, name, kind) for name in book.providers(gpu, kind)]


def separable(one: Choice, other: Choice) -> bool:
    """Whether the dearer is surely dearer; offers of one GPU share its prices of work."""
    low, high = sorted((one.bill.value or 0.0, other.bill.value or 0.0))
    if one.price.gpu == other.price.gpu:
        return high > low
    deviation = math.hypot(sigma_of(one.played), sigma_of(other.played))
    return low > 0 and math.log(high / low) > SURE * deviation


def sigma_of(played: Played) -> float:
    """Of the logarithm of prices of work: as asked for, else by what they rest on."""
    given = played.asked.config.playing.sigma
    return played.ground.sigma if given is None else given


def _choice(played: Played, price: Price, book: PriceBook) -> Choice:
    invoices = [invoice(bill, played.gpus, price, book) for bill in bills(played)]
    tokens = [useful_tokens(history) for history in played.histories]
    each = [per_million(bill.total, count) for bill, count in zip(invoices, tokens, strict=True)]
    return Choice(
        price,
        played,
        spread_figure("bill", [bill.total for bill in invoices], book.currency),
        spread_figure("cost of tokens", each, f"{book.currency}/million useful"),
        in_hours(promised(played, completion, "finish p95")),
        caveats(invoices[0], played.ground.basis),
    )


def _sentences(ranked: Sequence[Choice], book: PriceBook) -> list[str]:
    best = ranked[0]
    bill = best.bill
    lines = [f"{best.name} is cheapest: {bill.value or 0:.4g} {book.currency} for the whole team."]
    close = [each for each in ranked[1:] if not separable(best, each)]
    if close:
        names = ", ".join(f"{each.name} ({each.bill.value or 0:.4g})" for each in close)
        lines.append(f"Its rank is not separable from {names}: prices of work are too uncertain between GPUs.")
    elif len(ranked) > 1:
        lines.append(f"Its rank holds against the next, {ranked[1].name} ({ranked[1].bill.value or 0:.4g}).")
    return lines


def _spread(ranked: Sequence[Choice]) -> list[Figure]:
    last, first = ranked[-1].bill.value or 0.0, ranked[0].bill.value or 0.0
    return [plain("dearest over cheapest", last / first if first > 0 else None, "ratio")]


def _sheet(ranked: Sequence[Choice], book: PriceBook) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for rank, each in enumerate(ranked, 1):
        word = "-" if rank == 1 else "yes" if separable(ranked[0], each) else "no"
        interval = None if each.bill.low is None else f"{each.bill.low:.4g}..{each.bill.high:.4g}"
        row = (rank, each.name, each.price.per_gpu_hour, each.bill.value, interval, each.per_million.value)
        rows.append((*row, each.finish.value, word, f"{each.price.amount:g}/{each.price.unit}", each.price.read_on))
    unit = book.currency
    columns = ("rank", "offer", f"{unit}/GPU h", f"bill {unit}", "90 % interval", f"{unit}/Mtok", "finish p95 h")
    return Sheet("offers", (*columns, "dearer for sure", "price", "read"), tuple(rows))


def _chart(ranked: Sequence[Choice], book: PriceBook) -> Chart:
    series = Series(
        "bill",
        tuple(each.name for each in ranked),
        tuple(each.bill.value for each in ranked),
        tuple(each.bill.low for each in ranked),
        tuple(each.bill.high for each in ranked),
    )
    ends = (f"{each.bill.value or 0:.4g} ({each.name})" for each in (ranked[0], ranked[-1]))
    tells = f"From {' to '.join(ends)}."
    return Chart("bar", "what the team costs", "", book.currency, (series,), tells)
