"""How often held-out measurements lie in their intervals: every row with 40 points or more, groups apart.

Split conformal by five folds: four fifths of a group's held-out errors give the width for the last fifth, so every
point is judged once, by errors of its own (model, tp). An exact binomial test asks whether the target is met; it takes
judgements to be independent, which those of one fold nearly are. Small groups share one width.
"""

from collections.abc import Sequence
from math import expm1

import numpy as np

from costmodel.calibration import LEVEL, Coverage, across_groups, exact_coverage, half_width
from fidelity.rows import FOLDS, Held, Row, folds
from lobra.batch import Array

LEAST, DRAWS = 40, 10  # points of a row; other draws of the folds
ALONE = 30  # points of a group with a width of its own: fewer make it so coarse that it covers 2 % too much or more
TOGETHER = 12  # points of the small groups, all together: fewer give no width at 90 %
FITTED = "the width of the interval to four fifths of each group's held-out errors; judged on the last fifth"


def rows(evidence: Sequence[Row]) -> list[Row]:
    """A row for each that has enough points, and whose predictions are all above zero."""
    return [
        _covered(row, row.held)
        for row in evidence
        if row.held is not None and row.n >= LEAST and row.out_of_sample and bool(np.all(row.held.predicted > 0))
    ]


def _covered(row: Row, held: Held) -> Row:
    found, others = judged(held, 0), [judged(held, seed) for seed in range(1, DRAWS + 1)]
    strangers = across_groups(held.predicted, held.measured, held.groups)
    shares, kept = [each.share for each in others], sum(each.holds for each in others)
    strange = (
        f"{strangers.share:.1%} covered, half-width {expm1(strangers.half_width):.1%}, p = {strangers.p_value:.2f}"
    )
    return Row(
        f"90 % intervals: {row.evidence}",
        found.share,
        LEVEL,
        found.n,
        FITTED,
        holds=found.holds,
        repeat_noise=row.repeat_noise,
        notes=(
            f"p = {found.p_value:.2f}; half-width {expm1(found.half_width):.1%} (median)",
            f"{DRAWS} other draws: {min(shares):.1%} to {max(shares):.1%}, not rejected in {kept}",
            f"a group judged by the errors of all others: {strange}",
        ),
    )


def judged(held: Held, seed: int) -> Coverage:
    """Every point judged once by a width that its group's other folds gave."""
    residuals, names = np.abs(np.log(held.predicted / held.measured)), np.array(held.groups)
    known, counts = np.unique(names, return_counts=True)
    rare = np.isin(names, known[counts < ALONE])
    inside, widths = np.zeros(len(residuals), dtype=bool), np.zeros(len(residuals))
    places = [*(np.flatnonzero((names == name) & ~rare) for name in known), np.flatnonzero(rare)]
    for number, place in enumerate(places):
        for fold in _folds(len(place), seed + FOLDS * number) if len(place) >= TOGETHER else ():
            asked = place[fold]
            widths[asked] = half_width(residuals[place[~fold]], LEVEL)
            inside[asked] = residuals[asked] <= widths[asked]
    chosen = widths > 0
    return exact_coverage(inside[chosen], widths[chosen], LEVEL)


def _folds(count: int, seed: int) -> list[Array]:
    return list(folds(count, seed))
