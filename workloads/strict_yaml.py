"""YAML read strictly: no alias, no key twice, no interpolation, no surprise."""

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Any

import yaml

from lobra.errors import BadInput

LARGEST_FILE = 10_000_000  # bytes
EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")  # a number that YAML 1.1 only knows with a point
DEEPEST = 50  # brackets open at once; the reader's time grows with their square


def read_yaml(raw: bytes, owner: str) -> Any:
    """The document in these bytes; BadInput names the owner and, where there is one, the line."""
    if len(raw) > LARGEST_FILE:
        raise BadInput(f"{owner}: it has more than {LARGEST_FILE} bytes; put the lengths in CSV files")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{owner}: not UTF-8 text (byte {error.start})") from None
    if "${" in text:
        line = text[: text.index("${")].count("\n") + 1
        raise BadInput(f"{owner}, line {line}: it holds '${{': nothing is interpolated here, write the value itself")
    _refuse_depth(text, owner)
    try:
        _refuse_aliases(text, owner)
        _refuse_duplicates(yaml.compose(text, Loader=yaml.SafeLoader), owner)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise BadInput(f"{owner}{place}: not YAML ({getattr(error, 'problem', None) or error})") from None
    except ValueError as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{owner}: a value cannot be read ({error})") from None
    except RecursionError:
        raise BadInput(f"{owner}: not readable YAML: it is nested too deeply") from None


def _refuse_depth(text: str, owner: str) -> None:
    depth = 0
    for match in re.finditer(r"[\[\]{}]", text):
        depth = depth + 1 if match[0] in "[{" else max(0, depth - 1)
        if depth > DEEPEST:
            raise BadInput(f"{owner}: not readable YAML: it is nested too deeply (more than {DEEPEST} open brackets)")


def _refuse_aliases(text: str, owner: str) -> None:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise BadInput(f"{owner}, line {line}: the alias *{event.anchor} is refused; write the value again")


def _refuse_duplicates(node: yaml.Node | None, owner: str) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicates(item, owner)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                raise BadInput(f"{owner}, line {line}: a key must be a plain word")
            if key.value in seen:
                raise BadInput(f"{owner}, line {line}: the key '{key.value}' stands twice; keep one")
            seen.add(key.value)
            _refuse_duplicates(value, owner)


def mapping(body: Any, owner: str, allowed: Collection[str], required: Iterable[str] = ()) -> dict[str, Any]:
    """The body, if it is a mapping of allowed keys with all that are required."""
    if not isinstance(body, dict):
        raise BadInput(f"{owner}: expected keys and values, got {show(body)}")
    for key in body:
        if key not in allowed:
            raise BadInput(f"{owner}: there is no key {show(key)}; {nearest(str(key), allowed)}")
    for key in required:
        if key not in body:
            raise BadInput(f"{owner}: the key '{key}' is missing")
    return body


def number(value: Any, owner: str) -> float:
    """A finite number, 3e-4 included, which YAML 1.1 takes for text; no other text and no truth value."""
    if isinstance(value, str) and EXPONENT.fullmatch(value):
        value = float(value)
    if type(value) not in (int, float) or not abs(value) < float("inf"):
        raise BadInput(f"{owner}: expected a finite number, got {show(value)}")
    return float(value)


def nearest(name: str, names: Collection[str]) -> str:
    """Half a sentence that proposes what may have been meant."""
    close = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(sorted(names))}"


def show(value: Any) -> str:
    """A value as it stands in an error text."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
