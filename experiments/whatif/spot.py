"""Question 8, `spot`: whether spot nodes pay, given how often they are lost.

The same seeds are played twice, on nodes that are never lost and on spot nodes of the same provider; savings are
paired. How often nodes are lost is an assumption, so the answer names the rate of losses at which both cost the same,
which the closed form gives (`capacity.spot`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.capacity.breaking import Blast, blast_separate, young_seconds
from experiments.capacity.money import Invoice, caveats, invoice
from experiments.capacity.prices import Price
from experiments.capacity.reliability import Terms, nodes_of, radius
from experiments.capacity.spot import break_even, factor
from experiments.whatif.answer import Answer, Cell, Chart, Figure, Series, Sheet, Verdict
from experiments.whatif.asking import Asked, Priced, priced_of
from experiments.whatif.numbers import mean_figure, plain, spread_figure
from experiments.whatif.playing import Played, play
from experiments.whatif.scoring import bills, completion, mean_split, promised
from experiments.whatif.sizing import in_hours
from experiments.whatif.standing import answered
from experiments.whatif.words import seconds_of, some_seconds, told
from lobra.errors import BadInput

ASKS = "Do spot nodes pay?"
RATES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # mean times between losses of the chart, against the one given


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One offer, played."""

    name: str
    price: Price
    played: Played
    invoices: tuple[Invoice, ...]

    @property
    def totals(self) -> list[float]:
        """A bill a play."""
        return [each.total for each in self.invoices]


def answer(asked: Asked) -> Answer:
    """Both offers played, their bills and finishes, and where they would cost the same."""
    safe, cheap = offers_of(asked)
    terms, nodes = terms_of(asked, cheap.price), nodes_of(asked.world.cluster)
    fragile = [terms.fragile(nodes, seed) for seed in asked.seeds]
    sides = (_side("on demand", safe, play(asked)), _side("spot", cheap, play(asked, fragile)))
    step = _step_seconds(sides[0].played)
    even = break_even(terms, len(nodes), step, cheap.price.per_gpu_hour / safe.price.per_gpu_hour)
    saved = _saved(sides)
    sentences = [*_sentences(asked, sides, saved, terms), *_even(even), *_notes(sides[1])]
    return answered(
        asked,
        [side.played.ground for side in sides],
        _verdict(saved),
        sentences,
        asks=ASKS,
        figures=[saved, *_figures(asked, sides, terms, even)],
        sheets=[_sheet(sides), _blast_sheet(sides[1].played, terms, len(nodes))],
        charts=[_chart(sides, terms, len(nodes), step)],
        priced=cheap,
        extra={"on_demand": safe.price.cited, "spot": cheap.price.cited},
    )


def offers_of(asked: Asked) -> tuple[Priced, Priced]:
    """On demand and spot of the same provider; BadInput where either is not in the prices."""
    spot = priced_of(replace(asked, config=replace(asked.config, offer="spot")))
    if spot is None:
        raise BadInput("prices: a value is missing; spot needs them, give prices=2026-11 or a file of your own")
    safe = spot.book.find(spot.price.gpu, spot.price.provider, "on_demand")
    return Priced(spot.book, safe), spot


def terms_of(asked: Asked, price: Price) -> Terms:
    """How nodes are lost, as given; the notice by the price file where nothing is given."""
    given = asked.config.spot
    mtbf = some_seconds("spot.mtbf", given.mtbf)
    assert mtbf is not None
    told_notice = price.notice_seconds or 0.0
    return Terms(
        mtbf,
        some_seconds("spot.checkpoint", given.checkpoint) or 0.0,
        seconds_of("spot.restart", given.restart),
        told_notice if given.notice is None else seconds_of("spot.notice", given.notice),
        some_seconds("spot.interval", given.interval),
    )


def _side(name: str, priced: Priced, played: Played) -> Side:
    made = tuple(invoice(bill, played.gpus, priced.price, priced.book) for bill in bills(played))
    return Side(name, priced.price, played, made)


def _step_seconds(played: Played) -> float:
    """Of a step on average, over all plays."""
    training = [each for history in played.histories for each in history.intervals if each.phase == "train"]
    return math.fsum(each.seconds for each in training) / sum(each.steps for each in training)


def _saved(sides: Sequence[Side]) -> Figure:
    safe, spot = (np.array(side.totals) for side in sides)
    seed = sides[0].played.asked.seeds[0]
    return mean_figure("saved by spot", (100 * (1 - spot / safe)).tolist(), "%", seed, "of the bill, paired by seed")


def _verdict(saved: Figure) -> Verdict:
    if saved.low is None or saved.high is None:
        return "undecided"
    return "yes" if saved.low > 0 else "no" if saved.high < 0 else "undecided"


def _finish(side: Side) -> Figure:
    return in_hours(promised(side.played, completion, f"finish p95, {side.name}"))


def _figures(asked: Asked, sides: Sequence[Side], terms: Terms, even: float | None) -> list[Figure]:
    nodes = len(nodes_of(asked.world.cluster))
    currency, seed = sides[0].invoices[0].currency, asked.seeds[0]
    losses = [float(len(history.losses)) for history in sides[1].played.histories]
    failed = [100 * history.split.failed / history.split.total for history in sides[1].played.histories]
    return [
        *(spread_figure(f"bill, {side.name}", side.totals, currency) for side in sides),
        *(_finish(side) for side in sides),
        mean_figure("losses of nodes", losses, "a play", seed),
        spread_figure("GPU hours failed, spot", failed, "%", "lost steps, restarts, checkpoints"),
        plain("best checkpoint interval", terms.interval(nodes) / 60, "min", "Daly; as given where it is given"),
        plain("Young's interval", young_seconds(terms.breaking(nodes)) / 60, "min", "sqrt(2 checkpoint mean time)"),
        plain("break-even losses of a node", None if even is None else 3600 / even, "an hour", "closed form"),
    ]


def _sentences(asked: Asked, sides: Sequence[Side], saved: Figure, terms: Terms) -> list[str]:
    nodes, spot = len(nodes_of(asked.world.cluster)), sides[1]
    word = {"yes": "pays", "no": "does not pay", "undecided": "may or may not pay"}[_verdict(saved)]
    low, high = (0.0 if each is None else each for each in (saved.low, saved.high))
    before, after = (_finish(side).value or 0.0 for side in sides)
    saves = f"it saves {saved.value or 0:.3g} % of the bill ({low:.3g} to {high:.3g})"
    lost = f"each of {nodes} nodes is lost every {told(terms.node_mean_seconds)} on average"
    notice = f"with {told(terms.notice_seconds)} of notice" if terms.notice_seconds else "without notice"
    takes = f"a checkpoint takes {told(terms.checkpoint_seconds)}, a restart {told(terms.restart_seconds)}"
    every = f"every {told(terms.interval(nodes))} of training (a job on one node: every {told(terms.interval(1))})"
    return [
        f"Spot at {spot.price.provider} {word}: {saves}, and finish p95 goes from {before:.3g} h to {after:.3g} h.",
        f"Assumed: {lost}, {notice}; {takes}.",
        f"A checkpoint is written {every}.",
    ]


def _even(even: float | None) -> list[str]:
    if even is None:
        return ["Spot would not pay even if no node were ever lost."]
    return [f"Both cost the same where a node is lost every {told(even)}."]


def _notes(spot: Side) -> list[str]:
    return [f"{line}." for line in caveats(spot.invoices[0], spot.played.ground.basis)]


def _sheet(sides: Sequence[Side]) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for side in sides:
        split, finish = mean_split(side.played), _finish(side)
        bill = spread_figure("", side.totals, "")
        row = (side.name, side.price.per_gpu_hour, bill.value, finish.value, finish.high, split.total, split.failed)
        rows.append((*row, side.price.cited))
    columns = ("offer", "a GPU hour", "bill p50", "finish p95 h", "at most h", "GPU h", "failed GPU h", "price")
    return Sheet("by offer", columns, tuple(rows))


def _blast_sheet(spot: Played, terms: Terms, nodes: int) -> Sheet:
    """What a loss takes: as played together, and by the closed form for the same tenants on nodes of their own."""
    found = radius([loss for history in spot.histories for loss in history.losses])
    tenants = len(spot.asked.offers)
    apart: Blast = blast_separate(terms.breaking(nodes), tenants, spot.gpus, terms.interval(1))
    together = (None, None) if found is None else (found.tenants, found.gpu_seconds / 3600)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("together, played", *together),
        ("each on GPUs of its own, closed form", float(apart.tenants), apart.gpu_seconds / 3600),
    )
    return Sheet("what one loss of a node takes", ("deployment", "tenants stopped", "paid GPU h lost"), rows)


def _chart(sides: Sequence[Side], terms: Terms, nodes: int, step: float) -> Chart:
    ratio = sides[1].price.per_gpu_hour / sides[0].price.per_gpu_hour
    means = [terms.node_mean_seconds * rate for rate in RATES]
    curve = [100 * (1 - ratio * factor(replace(terms, node_mean_seconds=mean), nodes, step)) for mean in means]
    hours = tuple(mean / 3600 for mean in means)
    lines = (
        Series("saved by spot", hours, tuple(max(-100.0, each) for each in curve)),
        Series("as dear as on demand", hours, (0.0,) * len(hours)),
    )
    tells = f"Spot saves {curve[2]:.3g} % at one loss of a node every {told(means[2])}, {max(curve):.3g} % at the best."
    return Chart("line", "what spot saves", "hours between losses of a node", "% of the bill", lines, tells)
