r"""Lengths of a tenant's own text: JSON lines and a tokenizer file in, tokens and labels of every sequence out.

Both are counted by the rule that `lobra prepare` writes stores by (`workloads.turns`), so a plan made from text fits
the store made from it. The template `{question}\n{answer}` says which field is the answer: the last one, with what
follows it. A template of one field has no prompt: all its text carries loss.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lobra.errors import BadInput
from workloads.records import Record, field_text, read_records
from workloads.sources import Rows, without_empty
from workloads.tokenizer import open_tokenizer
from workloads.turns import sequences

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


def text_rows(
    path: Path, tokenizer: Path, template: Template, owner: str, *, begin: str | None = None, end: str | None = None
) -> Rows:
    """Tokens and labels of every sequence of the file; empty ones are counted. BadInput names what is wrong.

    begin and end name the tokens around a sequence, as in `workloads.tokenizer.open_tokenizer`.
    """
    tool = open_tokenizer(tokenizer, owner, begin, end)
    filled = ([template.fill(record, f"{owner}: {path}")] for record in read_records(path, owner))
    lengths, labels = [], []
    for ids, spans in sequences(tool, filled):
        lengths.append(len(ids) if spans else 0)  # a store leaves out what teaches nothing
        labels.append(sum(stop - start for start, stop in spans))
    return without_empty(np.array(lengths, np.int64), np.array(labels, np.int64), owner)


def template_of(fields: Sequence[str]) -> Template:
    """The fields one under another: prompt first, answer last."""
    return Template("\n".join("{" + field + "}" for field in fields))
