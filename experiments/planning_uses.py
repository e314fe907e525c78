"""What each replica is for: the lengths it serves and its share of the work, from the played planning batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from experiments.planning_case import Played
from lobra.batch import Array
from lobra.plan import DeploymentPlan, MicroBatch

COLUMNS = ("replicas", "GPUs", "budget", "lengths", "most tokens in", "tokens", "sequences", "busy")
CENTRAL = (0.1, 0.9)  # of a kind's tokens; what lies between is "most"


def use_rows(plan: DeploymentPlan, played: Played) -> list[dict[str, Any]]:
    """A row a kind of replica; equal replicas serve alike. Lengths and tokens are those of sequences, unpadded."""
    kinds: dict[tuple[Any, int], list[int]] = {}
    for number, replica in enumerate(plan.replicas):
        kinds.setdefault((replica.config, replica.budget), []).append(number)
    served = [_lengths(played, members) for members in kinds.values()]
    tokens, sequences = sum(float(lengths.sum()) for lengths in served), sum(map(len, served))
    slowest = played.busy.max(axis=1).mean() if len(played.busy) else 0.0
    return [
        {
            "replicas": f"{config}x{len(members)}",
            "gpus": config.gpus * len(members),
            "budget": budget,
            "shortest": int(lengths.min()) if len(lengths) else None,
            "longest": int(lengths.max()) if len(lengths) else None,
            "most_tokens": _central(lengths) if len(lengths) else None,
            "token_share": float(lengths.sum()) / tokens if tokens else 0.0,
            "sequence_share": len(lengths) / sequences if sequences else 0.0,
            "busy_share": float(played.busy[:, members].mean() / slowest) if slowest > 0 else 0.0,
            "gpus_of_each": [list(plan.replicas[number].gpus) for number in members],
        }
        for ((config, budget), members), lengths in sorted(
            zip(kinds.items(), served, strict=True), key=lambda item: item[0][0]
        )
    ]


def use_cells(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The same for people."""
    return [
        (
            row["replicas"],
            str(row["gpus"]),
            str(row["budget"]),
            _range(row["shortest"], row["longest"]),
            _range(*(row["most_tokens"] or (None, None))),
            f"{100 * row['token_share']:.1f} %",
            f"{100 * row['sequence_share']:.1f} %",
            f"{100 * row['busy_share']:.1f} %",
        )
        for row in rows
    ]


def _lengths(played: Played, members: Sequence[int]) -> Array:
    """Lengths of the sequences that these replicas serve; of a shared micro-batch each member an equal number."""
    found = [length for step in played.steps for number in members for length in _of(step.work[number], number)]
    return np.array(found, dtype=np.int64)


def _of(work: Sequence[MicroBatch], replica: int) -> Iterator[int]:
    for microbatch in work:
        sequences = [sequence for row in microbatch.rows for sequence in row]
        first, size = (microbatch.group.index(replica), len(microbatch.group)) if microbatch.group else (0, 1)
        yield from (sequence.length for sequence in sequences[first::size])


def _central(lengths: Array) -> list[int]:
    """Between which lengths the middle 80 % of the tokens lie."""
    ordered = np.sort(lengths)
    share = np.cumsum(ordered) / ordered.sum()
    low, high = (int(ordered[min(int(np.searchsorted(share, q)), len(ordered) - 1)]) for q in CENTRAL)
    return [low, high]


def _range(low: int | None, high: int | None) -> str:
    return "-" if low is None else f"{low}..{high}"
