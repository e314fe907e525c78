"""Question 2, `min-gpus`: how few GPUs keep the promise.

More GPUs do not always finish earlier (a plan of larger replicas may be worse), so every multiple of the granularity is
tried from the work bound up, one after another, until one keeps the promise; none between is guessed. A size whose
first plays already break it with 95 % confidence is not played further.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.whatif.answer import Answer, Figure, Verdict
from experiments.whatif.asking import Asked, priced_of
from experiments.whatif.numbers import plain
from experiments.whatif.playing import Ground, Played
from experiments.whatif.scoring import Decided, last_tenant, promises
from experiments.whatif.sizing import (
    Bound,
    Point,
    grounds_of,
    point_of,
    point_sheet,
    size_chart,
    sizes_of,
    unit_of,
    work_bound,
)
from experiments.whatif.standing import answered, ungrounded
from experiments.whatif.words import told
from lobra.errors import BadInput

ASKS = "How few GPUs keep the promise?"
SCREEN = 8  # plays after which a size may be given up


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """A size, and what became of every promise there."""

    point: Point
    promises: tuple[Decided, ...]

    @property
    def kept(self) -> bool | None:
        """None: undecided."""
        if self.point.played is None or any(each.kept is False for each in self.promises):
            return False
        return True if all(each.kept for each in self.promises) else None

    @property
    def word(self) -> str:
        """For the table."""
        if self.point.played is None:
            return f"does not fit: {self.point.reason}"
        return {True: "feasible", False: "infeasible", None: "undecided"}[self.kept]


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """All that was tried, ascending, up to the first size that keeps the promise."""

    bound: Bound | None
    tried: tuple[Tried, ...]

    @property
    def found(self) -> Tried | None:
        """The smallest that surely keeps it."""
        return self.tried[-1] if self.tried and self.tried[-1].kept else None

    @property
    def smallest(self) -> int | None:
        """Its GPUs."""
        return None if self.found is None else self.found.point.gpus

    @property
    def verdict(self) -> Verdict:
        """Of all sizes together."""
        if self.found is not None:
            return "feasible"
        return "undecided" if any(each.kept is None for each in self.tried) else "infeasible"

    @property
    def grounds(self) -> tuple[Ground, ...]:
        """What the plays rest on."""
        return tuple(grounds_of([each.point for each in self.tried]))


def search(asked: Asked) -> Searched:
    """Every size from the work bound up, until one keeps the promise."""
    promise = asked.promise
    if promise.finish_p95 is None and promise.wait_p95 is None:
        raise BadInput("slo: nothing is promised; give slo.finish_p95=8h or slo.wait_p95=30m")
    together = asked.config.arrivals.kind == "together"
    bound = work_bound(asked, promise.finish_p95) if together and promise.finish_p95 is not None else None
    tried: list[Tried] = []
    for gpus in sizes_of(asked, bound.gpus if bound else 1):
        tried.append(_tried(asked, gpus))
        if tried[-1].kept:
            break
    return Searched(bound, tuple(tried))


def answer(asked: Asked) -> Answer:
    """The smallest size that keeps it, what the next smaller one does, and what binds."""
    priced = priced_of(asked)
    done = search(asked)
    tried, bound, found = done.tried, done.bound, done.found
    points = [each.point for each in tried]
    best = point_of(asked, found.point.gpus, priced) if found is not None and priced is not None else None
    sentences = [*_sentences(asked, tried, bound, done.verdict), *_binding(asked, tried, bound)]
    limit = None if asked.promise.finish_p95 is None else asked.promise.finish_p95 / 3600
    return answered(
        asked,
        done.grounds or [ungrounded()],
        done.verdict,
        sentences,
        asks=ASKS,
        figures=_figures(found, best, bound),
        sheets=[point_sheet(points, [each.word for each in tried], None)],
        charts=[size_chart(points, limit, sentences[0])] if done.grounds else [],
        priced=priced,
    )


def _tried(asked: Asked, gpus: int) -> Tried:
    """Few plays first; all where these do not break the promise already."""
    if len(asked.seeds) > SCREEN:
        point = point_of(asked, gpus, first=SCREEN)
        found = Tried(point, _promises(point.played))
        if found.kept is False:
            return found
    point = point_of(asked, gpus)
    return Tried(point, _promises(point.played))


def _promises(played: Played | None) -> tuple[Decided, ...]:
    return () if played is None else tuple(promises(played))


def _figures(found: Tried | None, best: Point | None, bound: Bound | None) -> list[Figure]:
    figures = [plain("smallest number of GPUs", None if found is None else found.point.gpus, "GPUs")]
    if bound is not None:
        figures.append(plain("work bound", bound.gpus, "GPUs", f"{bound.gpu_hours:.4g} GPU h at the cheapest shapes"))
    if found is not None:
        figures += [each for each in (found.point.finish, found.point.end, found.point.gpu_hours) if each is not None]
    if best is not None and best.money is not None:
        figures.append(best.money)
    return figures


def _sentences(asked: Asked, tried: Sequence[Tried], bound: Bound | None, verdict: Verdict) -> list[str]:
    words = _promised(asked)
    if verdict == "feasible":
        last = tried[-1].point
        lines = [f"{last.gpus} GPUs keep {words}; finish p95 there: {_finish(last)}."]
        before = tried[-2] if len(tried) > 1 else None
        if before is not None and before.kept is False:
            lines.append(f"{before.point.gpus} GPUs do not: {before.word}, finish p95 {_finish(before.point)}.")
        unsure = [str(each.point.gpus) for each in tried if each.kept is None]
        if unsure:
            lines.append(
                f"Undecided at {', '.join(unsure)} GPUs: more seeds would tell (seeds={len(asked.seeds)} now)."
            )
        return lines
    most = max(asked.config.sizes.only, default=asked.config.sizes.most)
    if not tried:
        least = "" if bound is None else f": its work alone needs {bound.gpus}"
        return [f"No size up to {most} GPUs can keep {words}{least}."]
    if verdict == "infeasible":
        return [f"No size from {tried[0].point.gpus} to {tried[-1].point.gpus} GPUs keeps {words}."]
    sizes = ", ".join(str(each.point.gpus) for each in tried if each.kept is None)
    told_of = f"Undecided whether {words} is kept with {sizes} GPUs; no other size up to {most} keeps it."
    return [f"{told_of} Give more seeds ({len(asked.seeds)} now)."]


def _binding(asked: Asked, tried: Sequence[Tried], bound: Bound | None) -> list[str]:
    """What stands in the way of the next smaller size."""
    broken = [each for each in tried if each.kept is not True]
    if not broken:
        smaller = "" if bound is None else f": {bound.gpus} GPUs at the least, in steps of {unit_of(asked)}"
        return [f"Binding constraint: the work itself{smaller}."]
    at = broken[-1].point
    if at.played is None:
        return [f"Binding constraint with {at.gpus} GPUs: memory; {at.reason}."]
    who = last_tenant(at.played)
    steps = max(record.steps for record in at.played.histories[0].records if record.job.name == who)
    alone = steps * at.played.alone_seconds(who, 0)
    limit = asked.promise.finish_p95
    with_these = f"Binding constraint with {at.gpus} GPUs"
    if limit is not None and alone > limit:
        return [f"{with_these}: tenant '{who}' takes {told(alone)} even alone on all of them; its budget is too long."]
    split = at.played.histories[0].split
    useful = 100 * split.useful / split.total
    whole = f"work of the whole team ({useful:.3g} % of GPU time trains)"
    return [f"{with_these}: {whole}; '{who}' is last and would take {told(alone)} alone."]


def _promised(asked: Asked) -> str:
    promise = asked.promise
    parts = {"finish p95": promise.finish_p95, "wait p95": promise.wait_p95}
    return " and ".join(f"{name} {told(limit)}" for name, limit in parts.items() if limit is not None)


def _finish(point: Point) -> str:
    if point.finish is None or point.finish.value is None:
        return "none"
    return f"{point.finish.value:.3g} h"
