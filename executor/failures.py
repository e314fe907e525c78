"""What a rank tells of its end, and which of many tales is the cause."""

import contextlib
import json
import os
import signal
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from lobra.codec import parse
from lobra.errors import BadInput, Infeasible

DONE, BAD_INPUT, INFEASIBLE, PREEMPTED, FAILED = 0, 2, 3, 5, 6

# From the surest cause to the likeliest consequence.
Kind = Literal[
    "input",  # the rank refused what it was given
    "infeasible",
    "died",  # killed, or ended without a word
    "raised",
    "hung",  # no progress for too long, and it waited for nobody
    "silent",  # alive, yet it neither moves nor answers
    "waiting",  # no progress for too long, inside a collective: it waits for another rank
    "lost peer",  # a collective broke because another rank went away
    "preempted",
    "done",
]
RANKING: tuple[Kind, ...] = get_args(Kind)


class RankFailure(RuntimeError):
    """A rank of a job died, raised or hung: one line that names rank, phase and cause (exit code 6)."""


class Preempted(RuntimeError):
    """The job was asked to stop and can go on from its newest checkpoint (exit code 5)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one rank ended, by its own account or by that of who watched it."""

    rank: int
    kind: Kind
    phase: str  # what it was doing, such as "step 7, forward of micro-batch 2"
    message: str
    at: float  # seconds of the machine's wall clock; orders equals, decides nothing else

    def __str__(self) -> str:
        return f"rank {self.rank} {_TALES[self.kind]} in {self.phase}: {self.message}"


_TALES: dict[Kind, str] = {
    "input": "refused its input",
    "infeasible": "cannot do what is asked",
    "died": "died",
    "raised": "raised",
    "hung": "hangs",
    "silent": "does not answer",
    "waiting": "waits for another rank",
    "lost peer": "lost a peer",
    "preempted": "stopped as it was told",
    "done": "finished",
}


def exit_code(kind: Kind) -> int:
    """The exit code of a rank that ends so."""
    codes: dict[Kind, int] = {"input": BAD_INPUT, "infeasible": INFEASIBLE, "preempted": PREEMPTED, "done": DONE}
    return codes.get(kind, FAILED)


def root_cause(outcomes: Iterable[Outcome]) -> Outcome:
    """The likeliest cause among the outcomes of a job's ranks: the surest kind, of these the earliest."""
    return min(outcomes, key=lambda outcome: (RANKING.index(outcome.kind), outcome.at, outcome.rank))


def as_error(outcome: Outcome) -> Exception:
    """What a launcher raises for this cause; its text is one line."""
    text = " ".join(str(outcome).split())
    if outcome.kind in ("input", "infeasible"):
        told = " ".join(outcome.message.split())
        return BadInput(told) if outcome.kind == "input" else Infeasible(told)
    return Preempted(text) if outcome.kind == "preempted" else RankFailure(text)


def death(code: int) -> str:
    """An exit status of a process that left no word, in words; negative: the signal that killed it."""
    if code >= 0:
        return f"it ended with exit code {code} and left no word"
    with contextlib.suppress(ValueError):
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    return f"killed by signal {-code}"


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Leave word in the job's folder; a reader sees all of it or nothing."""
    path = outcome_path(folder, outcome.rank)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    temporary.replace(path)


def read_outcome(folder: Path, rank: int) -> Outcome | None:
    """What a rank left; None where there is nothing, or nothing readable."""
    try:
        body = parse(outcome_path(folder, rank).read_text(encoding="utf-8"))
        return Outcome(**body) if body["kind"] in RANKING else None
    except (OSError, UnicodeDecodeError, BadInput, TypeError, KeyError):
        return None


def outcome_path(folder: Path, rank: int) -> Path:
    """Where a rank leaves word of its end."""
    return folder / f"rank-{rank}.outcome.json"
