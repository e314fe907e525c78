"""Verdicts: whether a statement about a ratio holds, does not, or cannot be decided with what is known.

The falsifier asks whether a baseline is within 20 % of LobRA, cost over cost; if so, the headline is an artefact of a
weaker baseline. Survival asks whether a mix of replicas still saves something where the best equal replicas may do all
that the mix may. A mix is never worse than equal replicas on the planner's own batches, so zero would be no bar; 5 %
is asked for, somewhat more than the few per cent by which a choice of plans errs.
"""

from dataclasses import dataclass
from typing import Literal

from experiments.study.fair_paired import Ratio

WITHIN = 1.20  # of LobRA's cost: the falsifier of a published review of the paper
LEAST_SAVING = 0.05  # what survives must be more than that
HEADLINE = (0.45, 0.60)  # of GPU seconds saved, as published
MOOT = 0.10  # packing that gains no more than that changes nothing

Word = Literal["fires", "does not", "undecided"]
Ends = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A word, with prices as unsure as they are; the word if prices are right; and what the costs rest on."""

    word: Word
    given_prices: Word
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.word} [{', '.join(self.flags)}]" if self.flags else self.word


def at_most(ends: Ends, limit: float) -> Word:
    """Whether a quantity is at most the limit, by its interval."""
    if ends is None:
        return "undecided"
    return "fires" if ends[1] <= limit else "does not" if ends[0] > limit else "undecided"


def falsifier(baseline_over_lobra: Ratio, flags: tuple[str, ...] = ()) -> Verdict:
    """Fires where the baseline is within 20 % of LobRA."""
    return _verdict(baseline_over_lobra, WITHIN, flags)


def survival(mix_over_equal: Ratio, flags: tuple[str, ...] = ()) -> Verdict:
    """Fires where the mix saves more than 5 % of the best equal replicas: where heterogeneity survives."""
    return _verdict(mix_over_equal, 1 - LEAST_SAVING, flags)


def moot(packed_over_padded: list[Ratio]) -> Word:
    """Whether packing gains 10 % or less in every setting; in a single one it does not: it does not."""
    words = [at_most(None if r.ends is None else (1 - r.ends[1], 1 - r.ends[0]), MOOT) for r in packed_over_padded]
    if "does not" in words:
        return "does not"
    return "fires" if words and all(word == "fires" for word in words) else "undecided"


def in_headline(saving: Ends) -> str:
    """Where a saving's interval lies: below, inside or above what was published, or across an end of it."""
    if saving is None:
        return "undecided"
    low, high = HEADLINE
    if saving[1] < low:
        return "below"
    if saving[0] > high:
        return "above"
    return "inside" if low <= saving[0] and saving[1] <= high else "undecided"


def flags_of(*sides: tuple[str, bool]) -> tuple[str, ...]:
    """What a comparison rests on, from the (status, extrapolated) of its sides: the weakest, measured being no flag."""
    order = ("measured", "derived", "roofline")
    weakest = max((status for status, _ in sides), key=order.index, default="measured")
    flags = () if weakest == "measured" else (weakest,)
    return (*flags, "extrapolated") if any(beyond for _, beyond in sides) else flags


def _verdict(of: Ratio, limit: float, flags: tuple[str, ...]) -> Verdict:
    return Verdict(at_most(of.ends, limit), at_most(of.ends_of_batches, limit), flags)
