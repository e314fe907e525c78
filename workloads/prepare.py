"""A tenant's text made into a token store: JSON lines and a tokenizer file in, ids and what carries loss out.

A sequence is the begin token, if the tokenizer has one, and one or more turns; a turn is a prompt, an answer, the end
token. Answers and their end tokens carry loss. The rule at the border: prompt and answer are tokenised apart, so the
prompt's ids are a prefix of the whole by construction and no token straddles it. The mask goes by position, never by
id. A begin or end token that the text already brings, as a chat template does, is not put a second time.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lobra.errors import BadInput
from lobra.folders import refuse_existing
from lobra.store import Span, StoreWriter
from workloads.records import Record, read_records
from workloads.strict_yaml import nearest, show
from workloads.text import Template
from workloads.tokenizer import TextTokenizer, open_tokenizer

CHUNK = 1000  # records that are tokenised at a time

Turns = list[tuple[str, str]]  # prompt and answer of each


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
        for ids, spans in _sequences(tool, filled):
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


def _sequences(tool: TextTokenizer, records: Iterable[Turns]) -> Iterator[tuple[list[int], list[Span]]]:
    """Ids and spans of every record, both empty where it has no token."""
    records = iter(records)
    while chunk := list(islice(records, CHUNK)):
        encoded = iter(tool.encode([part for turns in chunk for turn in turns for part in turn]))
        for turns in chunk:
            yield _sequence(tool, [(next(encoded), next(encoded)) for _ in turns])


def _sequence(tool: TextTokenizer, turns: list[tuple[list[int], list[int]]]) -> tuple[list[int], list[Span]]:
    spoken = [(prompt, answer) for prompt, answer in turns if prompt or answer]
    if not spoken:
        return [], []
    front = list(tool.begin)
    opening = spoken[0][0] or spoken[0][1]
    ids = [] if opening[: len(front)] == front else front
    spans = []
    for prompt, answer in spoken:
        start = len(ids) + len(prompt)
        ids = ids + prompt + answer
        if not answer or answer[-1] != tool.end:
            ids.append(tool.end)
        spans.append((max(start, 1), len(ids)))  # nothing stands before the first token: it cannot be predicted
    return ids, [span for span in spans if span[0] < span[1]]


def _named(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"file": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
