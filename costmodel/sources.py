"""The data that the cost models rest on: YAML beside this file, each with its source."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from lobra.errors import BadInput

FOLDER = Path(__file__).parent / "sources"


def read_source(path: Path, kind: str | None = None) -> dict[str, Any]:
    """One source file; refused where it is no YAML mapping of schema 1, or of another kind than asked for."""
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C where libyaml is there: ten times faster
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 -- both load plain data only
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"source {path}: it cannot be read ({str(error).splitlines()[0]})") from error
    if not isinstance(content, dict) or content.get("schema") != 1:
        raise BadInput(f"source {path}: schema is missing or not 1; give a YAML mapping with schema: 1")
    if kind is not None and content.get("kind") != kind:
        raise BadInput(f"source {path}: kind is {content.get('kind')!r}; {kind!r} is needed")
    return content


def find_source(kind: str, gpu: str, model: str) -> dict[str, Any] | None:
    """The shipped source of this kind for this GPU and model, or None."""
    for path in sorted(FOLDER.glob("*.yaml")):
        content = read_source(path)
        if (content.get("kind"), content.get("gpu"), content.get("model")) == (kind, gpu, model):
            return content
    return None


def field(body: Mapping[str, Any], name: str) -> Any:
    """A value of a source; BadInput where it is missing."""
    if name not in body:
        raise BadInput(f"source: the key '{name}' is missing; write the file with `lobra fit`")
    return body[name]


def nearest(what: str, value: str, choices: Iterable[str]) -> str:
    """The one-line refusal of a name that does not exist, with the names that come closest."""
    known = sorted(choices)
    close = get_close_matches(value, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(known)}"
    return f"{what}: there is no {value!r}; {hint}"
