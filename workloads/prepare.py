"""A tenant's text made into a token store: JSON lines and a tokenizer file in, ids and what carries loss out.

What a sequence is, and which of its tokens carry loss, is told in `workloads.turns`.
"""

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lobra.errors import BadInput
from lobra.folders import refuse_existing
from lobra.store import Span, StoreWriter
from workloads.records import Record, read_records
from workloads.strict_yaml import nearest, show
from workloads.text import Template
from workloads.tokenizer import open_tokenizer
from workloads.turns import Turns, sequences


@dataclass(frozen=True, slots=True)
class Prepared:
    """What became of the records; every one of them is counted once in sequences, empty or unlabelled."""

    sequences: int = 0
    tokens: int = 0
    labels: int = 0
    longest: int = 0  # tokens
    cut: int = 0  # sequences shortened to the limit
    empty: int = 0  # records without a token, left out
    unlabelled: int = 0  # sequences of which the limit left no answer, left out


def prepare(
    text: Path,
    tokenizer: Path,
    template: Template,
    folder: Path,
    *,
    turns: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    limit: int | None = None,
    owner: str = "prepare",
) -> Prepared:
    """Write the store of a text file into a new folder, and count.

    turns: the field that holds a list of objects, each filled into the template (a conversation); None: the record
    itself is the only turn. limit: tokens to which longer sequences are cut at their end; the cut of a conversation
    must happen here, since a workload's own cut counts labels as if they all stood at the end.
    BadInput names what is wrong, with the physical line of a broken record.
    """
    if limit is not None and limit < 1:
        raise BadInput(f"{owner}: limit is {limit}; it must be a number of tokens >= 1")
    refuse_existing(folder)  # before the work, not after it
    tool = open_tokenizer(tokenizer, owner, begin, end)
    where = f"{owner}: {text}"
    filled = (_turns(record, template, turns, where) for record in read_records(text, owner))
    tally: Counter[str] = Counter()
    with StoreWriter(folder, tool.vocabulary) as store:
        for ids, spans in sequences(tool, filled):
            _keep(store, ids, spans, limit, tally)
        counts = Prepared(**tally)
        if not counts.sequences:
            raise BadInput(f"{where} has no sequence to train ({counts.empty} empty, {counts.unlabelled} unlabelled)")
        store.origin |= {
            "text": _named(text),
            "tokenizer": _named(tokenizer),
            "template": template.text,
            "turns": turns,
            "begin": list(tool.begin),
            "end": tool.end,
            "limit": limit,
            **asdict(counts),
        }
    return counts


def _keep(store: StoreWriter, ids: list[int], spans: list[Span], limit: int | None, tally: Counter[str]) -> None:
    if not ids:
        tally["empty"] += 1
        return
    if limit is not None and len(ids) > limit:
        ids = ids[:limit]
        spans = [(start, min(end, limit)) for start, end in spans if start < limit]
        tally["cut"] += 1
    if not spans:
        tally["unlabelled"] += 1
        return
    store.append(ids, spans)
    tally["sequences"] += 1
    tally["tokens"] += len(ids)
    tally["labels"] += sum(end - start for start, end in spans)
    tally["longest"] = max(tally["longest"], len(ids))


def _turns(record: Record, template: Template, field: str | None, where: str) -> Turns:
    if field is None:
        return [template.fill(record, where)]
    if field not in record.body:
        raise BadInput(f"{where}, line {record.line}: there is no field '{field}'; {nearest(field, record.body)}")
    listed = record.body[field]
    if not isinstance(listed, list) or not all(isinstance(turn, dict) for turn in listed):
        raise BadInput(f"{where}, line {record.line}: field '{field}' is {show(listed)}; it must be a list of objects")
    return [template.fill(Record(record.line, turn), where) for turn in listed]


def _named(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"file": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
