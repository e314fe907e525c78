"""What the referee's test says in words: a line a case, and the one sentence that the headline deserves."""

from collections.abc import Sequence

from experiments.study.fair_paired import Ratio, saved
from experiments.study.fair_verdicts import in_headline
from experiments.study.referee_cases import Case


def line(case: Case) -> str:
    """The verdicts of one case."""
    kept, ends = percent(case.against_packed), saved(case.against_packed)[1]
    return (
        f"{case.setting}, {case.plans} plans: packing alone saves {percent(case.packing)}; LobRA saves "
        f"{percent(case.lobra)} of Task-Fused padded and {kept} of Task-Fused packed (45 to 60 %: "
        f"{in_headline(ends)}); packed, it saves {percent(case.both_packed)} of Task-Fused packed; falsifier (the "
        f"packed baseline within 20 %): {case.padded_verdict} for LobRA padded ({1 / case.against_packed.value:.2f} "
        f"times; if prices are right: {case.padded_verdict.given_prices}), {case.packed_verdict} for LobRA packed "
        f"({1 / case.both_packed.value:.2f} times; if prices are right: {case.packed_verdict.given_prices})"
    )


def scope(told: Sequence[Case]) -> str:
    """How much is left against a packed baseline, and where that is decided."""
    kept = dict.fromkeys(
        case.setting for case in told if in_headline(saved(case.against_packed)[1]) in ("inside", "above")
    )
    return (
        f"scope: LobRA saves {_span([c.lobra for c in told])} of a padded Task-Fused; of one that packs it saves "
        f"{_span([c.against_packed for c in told])}, or {_span([c.both_packed for c in told])} if it packs as well; "
        f"45 % or more are surely kept against packing in {', '.join(kept) or 'no setting'}; the packed baseline is "
        f"within 20 % of padded LobRA {_where(told)}"
    )


def percent(of: Ratio) -> str:
    """What is saved, with its interval."""
    value, ends = saved(of)
    return f"{100 * value:.1f} %" + ("" if ends is None else f" ({100 * ends[0]:.1f}..{100 * ends[1]:.1f})")


def _span(ratios: Sequence[Ratio]) -> str:
    values = sorted(100 * (1 - of.value) for of in ratios)
    return f"{values[0]:.0f} to {values[-1]:.0f} %"


def _where(told: Sequence[Case]) -> str:
    """In which settings the falsifier fires, may, does not."""
    words = {"fires": "in", "undecided": "perhaps in", "does not": "not in"}
    groups: dict[str, list[str]] = {word: [] for word in words}
    for case in told:
        groups[case.padded_verdict.word].append(f"{case.setting} ({case.plans} plans)")
    return ", ".join(f"{words[word]} {', '.join(names)}" for word, names in groups.items() if names)
