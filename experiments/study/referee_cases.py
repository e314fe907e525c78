"""What the referee asks of one setting and one choice of LobRA's plans: four savings and two verdicts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.study.fair_paired import Costs, Ratio, ratio, saved
from experiments.study.fair_verdicts import Verdict, falsifier, flags_of, in_headline
from experiments.study.point import Results, Rows

PADDED, PACKED = "task_fused", "task_fused_packed"
PLANS = ("published", "own")


@dataclass(frozen=True, slots=True)
class Case:
    """Costs over costs, and whether the packed baseline is within 20 % of LobRA."""

    setting: str
    plans: str
    packing: Ratio  # the baseline, packed over padded
    lobra: Ratio  # LobRA padded over the baseline padded
    against_packed: Ratio  # LobRA padded over the baseline packed
    both_packed: Ratio  # LobRA packed over the baseline packed
    padded_verdict: Verdict  # packed baseline, LobRA padded
    packed_verdict: Verdict  # packed baseline, LobRA packed
    bodies: Mapping[str, Any]


def cases(results: Results) -> Iterator[Case]:
    """Every setting and choice of plans for which both baselines and both forms of LobRA were played."""
    for setting, summary in results.items():
        bodies = usable(summary)
        for plans in PLANS:
            names = f"lobra_{plans}", f"lobra_packed_{plans}"
            if {PADDED, PACKED, *names} <= bodies.keys():
                yield case_of(setting, plans, {name: bodies[name] for name in (PADDED, PACKED, *names)})


def case_of(setting: str, plans: str, bodies: Mapping[str, Any]) -> Case:
    """The case of these four policies, in this order: baseline padded and packed, LobRA padded and packed."""
    flags = flags_of(*((body["status"], body["extrapolated"]) for body in list(bodies.values())[1:]))
    padded, packed, lobra, both = (costs(body) for body in bodies.values())
    return Case(
        setting=setting,
        plans=plans,
        packing=ratio(packed, padded),
        lobra=ratio(lobra, padded),
        against_packed=ratio(lobra, packed),
        both_packed=ratio(both, packed),
        padded_verdict=falsifier(ratio(packed, lobra), flags),
        packed_verdict=falsifier(ratio(packed, both), flags),
        bodies=bodies,
    )


def case_rows(case: Case) -> Rows:
    """A row a comparison."""
    last = list(case.bodies)[2:]
    compared = (
        ("task_fused_packed", PADDED, case.packing, None),
        (last[0], PADDED, case.lobra, None),
        (last[0], PACKED, case.against_packed, case.padded_verdict),
        (last[1], PACKED, case.both_packed, case.packed_verdict),
    )
    return [
        {"setting": case.setting}
        | _compared(of, verdict)
        | {"policy": policy, "against": against}
        | _played(case.bodies[policy])
        for policy, against, of, verdict in compared
    ]


def usable(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The policies that could be played."""
    return {name: body for name, body in summary["policies"].items() if "failed" not in body}


def costs(body: Mapping[str, Any]) -> Costs:
    """What a policy of a summary costs."""
    return Costs(tuple(body["gpu_seconds_per_step"]), tuple(body["draws"]))


def _compared(of: Ratio, verdict: Verdict | None) -> dict[str, Any]:
    saving, ends = saved(of)
    return {
        "policy": None,
        "against": None,
        "saves": saving,
        "low": ends and ends[0],
        "high": ends and ends[1],
        "45 to 60 %": in_headline(ends),
        "times": 1 / of.value,
        "falsifier": verdict and str(verdict),
        "if prices are right": verdict and verdict.given_prices,
    }


def _played(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "accumulated": body["accumulated"],
        "chunk_tokens": body["chunk_tokens"],
        "steps": len(body["gpu_seconds_per_step"]),
        "plan": body["plan_summaries"][0],
    }
