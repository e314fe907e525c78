r"""Lengths of a tenant's own text: JSON lines and a tokenizer file in, tokens and labels of every sequence out.

A sequence is, if the tokenizer has one, the token it puts in front; the tokens of the prompt; those of the answer; one
end token. Answer and end token carry loss. Prompt and answer are tokenised apart, so that no token straddles their
border. The template `{question}\n{answer}` says which field is the answer: the last one, with what follows it.
A template of one field has no prompt: all its text carries loss.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lobra.errors import BadInput
from workloads.records import Record, field_text, read_records
from workloads.sources import Rows, without_empty

CHUNK = 1000  # texts that are tokenised at a time
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
FIELD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Template:
    r"""A text with fields in braces, such as `{question}\n{answer}`."""

    text: str

    def __post_init__(self) -> None:
        rest = PLACEHOLDER.sub("", self.text)
        if not self.fields or "{" in rest or "}" in rest or not all(map(FIELD.fullmatch, self.fields)):
            raise BadInput(f"template is {self.text!r}; it must name at least one field, in braces: '{{question}}'")

    @property
    def fields(self) -> tuple[str, ...]:
        """Its fields in order."""
        return tuple(PLACEHOLDER.findall(self.text))

    def fill(self, record: Record, where: str) -> tuple[str, str]:
        """Prompt and answer of a record; both empty where every field is."""
        values = {field: field_text(record, field, where) for field in self.fields}
        if not any(values.values()):
            return "", ""
        border = self.text.rindex("{" + self.fields[-1] + "}") if len(self.fields) > 1 else 0
        parts = (self.text[:border], self.text[border:])
        prompt, answer = (PLACEHOLDER.sub(lambda match: values[match[1]], part) for part in parts)
        return prompt, answer


def text_rows(path: Path, tokenizer: Path, template: Template, owner: str) -> Rows:
    """Tokens and labels of every sequence of the file; empty ones are counted. BadInput names what is wrong."""
    tool = _tokenizer(tokenizer, owner)
    front = _front(tool)
    filled = (template.fill(record, f"{owner}: {path}") for record in read_records(path, owner))
    lengths, labels = [], []
    for prompt, answer in _token_counts(tool, filled):
        lengths.append(front + prompt + answer + 1 if prompt + answer else 0)
        labels.append(answer + 1)
    return without_empty(np.array(lengths, np.int64), np.array(labels, np.int64), owner)


def _tokenizer(path: Path, owner: str) -> Any:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415  # an extra: whoever gives no text does not need it
    except ImportError:
        raise BadInput(f"{owner}: text needs the package 'tokenizers'; install lobra[text], or give lengths") from None
    try:
        tool = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{owner}: {path} cannot be read ({error.strerror}); give a tokenizer.json") from None
    except Exception as error:  # noqa: BLE001  # the package raises bare Exception for a broken file
        raise BadInput(f"{owner}: {path} is no tokenizer file ({str(error)[:80]})") from None
    tool.no_padding()  # a file may ask for either; both would falsify lengths
    tool.no_truncation()
    return tool


def _front(tool: Any) -> int:
    """Tokens that the tokenizer itself puts before a text."""
    bare = tool.encode("a", add_special_tokens=False).ids
    full = tool.encode("a", add_special_tokens=True).ids
    starts = (start for start in range(len(full)) if full[start : start + len(bare)] == bare)
    return next(starts, 0)


def _token_counts(tool: Any, pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    while chunk := list(islice(pairs, CHUNK)):
        flat = [text for pair in chunk for text in pair]
        counts = [len(one.ids) for one in tool.encode_batch(flat, add_special_tokens=False)]
        yield from zip(counts[::2], counts[1::2], strict=True)
