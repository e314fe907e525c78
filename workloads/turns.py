"""Turns of a text as one sequence of ids, with what carries loss: the one rule by which plans count and stores hold.

A sequence is the begin token, if the tokenizer has one, and one or more turns; a turn is a prompt, an answer, the end
token. Answers and their end tokens carry loss. The rule at the border: prompt and answer are tokenised apart, so the
prompt's ids are a prefix of the whole by construction and no token straddles it. The mask goes by position, never by
id. A begin or end token that the text already brings, as a chat template does, is not put a second time.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from lobra.store import Span
from workloads.tokenizer import TextTokenizer

CHUNK = 1000  # records that are tokenised at a time

Turns = list[tuple[str, str]]  # prompt and answer of each


def sequences(tool: TextTokenizer, records: Iterable[Turns]) -> Iterator[tuple[list[int], list[Span]]]:
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
