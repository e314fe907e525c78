"""Published tasks: the twelve of the LobRA paper, and real sets of lengths under the same form."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from lobra.errors import BadInput
from workloads.laws import read_law
from workloads.lengths import LengthFamily
from workloads.quantiles import shipped_sources, shipped_table
from workloads.strict_yaml import nearest, read_yaml

REAL_BATCH_SIZE = 128
REAL_CONTEXT_LIMIT = 16384
PAPER = "LobRA (arXiv 2509.01193), appendix B.1, table 4; fitted"


@dataclass(frozen=True, slots=True)
class Published:
    """Published moments of a task's lengths, before any limit; the deviation is not published."""

    mean: float
    skewness: float
    excess_kurtosis: float


@dataclass(frozen=True, slots=True)
class Task:
    """A published data set: its law of lengths, batch size and context limit."""

    name: str
    batch_size: int
    context_limit: int
    lengths: LengthFamily
    source: str
    published: Published | None = None  # None: the law is made from the set's own lengths


def paper_tasks(meetingbank: str = "alternative") -> dict[str, Task]:
    """The paper's tasks by name, in its order; meetingbank: `alternative` (the shape of QMSum) or `lognormal`."""
    if meetingbank not in ("alternative", "lognormal"):
        raise BadInput(f"meetingbank is {meetingbank!r}; choose alternative or lognormal")
    raw = files("workloads").joinpath("data/lobra_table4.yaml").read_bytes()
    bodies = read_yaml(raw, "lobra_table4.yaml")["tasks"]
    return {body["name"]: _paper_task(body, meetingbank) for body in bodies}


def _paper_task(body: dict[str, Any], meetingbank: str) -> Task:
    name = body["name"]
    law = body["lengths"]
    if name == "meetingbank" and meetingbank == "lognormal":
        law = body["alternatives"]["lognormal"]
    moments = Published(**body["published"])
    return Task(name, body["batch_size"], body["context_limit"], read_law(law, name), PAPER, moments)


def real_task(name: str) -> Task:
    """A set of real lengths as a task of the usual batch size and limit; BadInput where none is shipped."""
    sources = shipped_sources()
    if name not in sources:
        raise BadInput(f"there is no length table {name!r}; {nearest(name, sources)}")
    body = sources[name]
    source = f"{body['source']}; {body['tokenizer']} tokens; real; {body['licence']}"
    return Task(name, REAL_BATCH_SIZE, REAL_CONTEXT_LIMIT, shipped_table(name), source)


def dataset_task(name: str) -> Task:
    """A shipped task of either kind by its name; BadInput names the nearest where there is none."""
    paper = paper_tasks()
    if name in paper:
        return paper[name]
    names = [*paper, *shipped_sources()]
    if name not in names:
        raise BadInput(f"there is no dataset {name!r}; {nearest(name, names)}")
    return real_task(name)
