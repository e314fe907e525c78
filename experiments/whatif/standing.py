"""What an answer rests on, put beside it: basis, extrapolation, seeds, prices, versions; and its exit code."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.failures import DONE, INFEASIBLE, PARTIAL
from experiments.rundir import git_commit, version
from experiments.whatif.answer import Answer, Chart, Figure, Sheet, Verdict, weakest
from experiments.whatif.asking import Asked, Priced
from experiments.whatif.playing import Ground

CODES: dict[Verdict, int] = {"infeasible": INFEASIBLE, "undecided": PARTIAL}


def answered(
    asked: Asked,
    grounds: Sequence[Ground],
    verdict: Verdict,
    sentences: Sequence[str],
    *,
    asks: str,
    figures: Sequence[Figure] = (),
    sheets: Sequence[Sheet] = (),
    charts: Sequence[Chart] = (),
    priced: Priced | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Answer:
    """The answer of these plays; as weak as the weakest ground under it."""
    return Answer(
        asked.question,
        asks,
        verdict,
        tuple(sentences),
        tuple(figures),
        tuple(sheets),
        tuple(charts),
        weakest([ground.basis for ground in grounds]),
        any(ground.extrapolated for ground in grounds),
        provenance(asked, grounds, priced),
        CODES.get(verdict, DONE),
        extra or {},
    )


def provenance(asked: Asked, grounds: Sequence[Ground], priced: Priced | None = None) -> dict[str, str]:
    """Where every number comes from; no wall clock, so that equal questions have equal answers."""
    cluster, seeds = asked.world.cluster, asked.seeds
    sigmas = sorted({ground.sigma for ground in grounds})
    notes = dict.fromkeys(note for ground in grounds for note in ground.notes)
    made = {
        "model": asked.world.model.name,
        "cluster": f"{cluster.gpus} GPUs {cluster.gpu.name} on {cluster.nodes} nodes",
        "policy": f"{asked.policy.name}, re-deployment {asked.config.churn.rule}",
        "seeds": f"{seeds[0]} to {seeds[-1]}",
    }
    if sigmas:
        shown = ", ".join(f"{each:.1%}" for each in sigmas)
        made["prices of work"] = f"off by one log-normal factor a seed, sigma {shown}"
    if notes:
        made["costs"] = "; ".join(notes)
    if priced is not None:
        made["price"] = f"{priced.price.name}: {priced.price.cited}"
    made["configuration"] = asked.name
    made["version"] = f"lobra {version('lobra')}, commit {git_commit() or 'unknown'}"
    return made


def ungrounded() -> Ground:
    """Of an answer for which nothing had to be played: the weakest there is."""
    return Ground("roofline", False, 0.0, ("nothing was played",))
