"""Nouns to JSON and back, by their type hints: `{"schema": 1, "kind": "StepPlan", "body": {...}}`."""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, cast

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.trace import StepReport

SCHEMA = 1
KINDS: dict[str, type] = {kind.__name__: kind for kind in (DeploymentPlan, StepPlan, StepReport)}

Reader = Callable[[Any, str], Any]


def encode(noun: Any) -> str:
    """One line of JSON; the same noun always gives the same bytes. NaN and infinity are refused."""
    envelope = {"schema": SCHEMA, "kind": type(noun).__name__, "body": _plain(noun)}
    return json.dumps(envelope, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def decode(line: str) -> Any:
    """The noun in one line of JSON; BadInput names the path of what is wrong."""
    envelope = parse(line)
    if not isinstance(envelope, dict) or set(envelope) != {"schema", "kind", "body"}:
        raise BadInput('$: expected an object with exactly "schema", "kind" and "body"')
    if envelope["schema"] != SCHEMA:
        raise BadInput(
            f"$.schema: expected {SCHEMA}, got {envelope['schema']!r}; this version reads schema {SCHEMA} only"
        )
    kind = envelope["kind"]
    if kind not in KINDS:
        raise BadInput(f"$.kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    return _reader(KINDS[kind])(envelope["body"], "$.body")


def parse(text: str) -> Any:
    """Strict JSON: no NaN, no infinity, no key twice."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise BadInput("not readable JSON: it is nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise BadInput(f"not strict JSON: it holds {name}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        keys = [key for key, _ in pairs]
        raise BadInput(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return body


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


@cache
def _reader(hint: Any) -> Reader:
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return _dataclass_reader(cast(type, hint))
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints = typing.get_type_hints(hint)
        named = cast(Any, hint)
        return _tuple_reader(tuple(_reader(hints[field]) for field in named._fields), named._make)
    if origin is tuple:
        items = typing.get_args(hint)
        if len(items) == 2 and items[1] is Ellipsis:
            return _sequence_reader(_reader(items[0]))
        return _tuple_reader(tuple(_reader(item) for item in items), tuple)
    if origin is types.UnionType:
        (inner,) = (item for item in typing.get_args(hint) if item is not types.NoneType)
        reader = _reader(inner)
        return lambda value, path: None if value is None else reader(value, path)
    if origin is typing.Literal:
        return _literal_reader(typing.get_args(hint))
    return _scalar_reader(hint)


def _dataclass_reader(kind: type) -> Reader:
    hints = typing.get_type_hints(kind)
    fields = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}
    required = {field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING}

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise BadInput(f"{path}: expected an object ({kind.__name__}), got {_show(value)}")
        for name in value:
            if name not in fields:
                raise BadInput(f"{path}.{name}: {kind.__name__} has no such field; it has {', '.join(fields)}")
        for name in sorted(required - value.keys()):
            raise BadInput(f"{path}.{name}: it is missing; {kind.__name__} needs it")
        arguments = {name: fields[name](item, f"{path}.{name}") for name, item in value.items()}
        try:
            return kind(**arguments)
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from None

    return read


def _sequence_reader(item: Reader) -> Reader:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise BadInput(f"{path}: expected a list, got {_show(value)}")
        return tuple(item(element, f"{path}[{i}]") for i, element in enumerate(value))

    return read


def _tuple_reader(items: tuple[Reader, ...], make: Callable[[Any], Any]) -> Reader:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            raise BadInput(f"{path}: expected a list of {len(items)}, got {_show(value)}")
        return make(item(element, f"{path}[{i}]") for i, (item, element) in enumerate(zip(items, value, strict=True)))

    return read


def _literal_reader(choices: tuple[Any, ...]) -> Reader:
    def read(value: Any, path: str) -> Any:
        if value not in choices:
            raise BadInput(f"{path}: expected one of {', '.join(map(str, choices))}, got {_show(value)}")
        return value

    return read


def _scalar_reader(hint: type) -> Reader:
    def read(value: Any, path: str) -> Any:
        if hint is float and type(value) in (int, float) and math.isfinite(value):
            return value  # a whole number stays one: the same bytes on the way back
        if type(value) is not hint:
            raise BadInput(f"{path}: expected {hint.__name__}, got {_show(value)}")
        return value

    return read


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
