"""A tenant as it stands in YAML: the fields of `lobra.spec.Tenant`, each of its declared type."""

import typing
from dataclasses import fields
from typing import Any

from lobra.errors import BadInput
from lobra.spec import Tenant
from workloads.strict_yaml import number, show

TENANT_FIELDS = tuple(field.name for field in fields(Tenant))
REQUIRED = ("name", "batch_size", "context_limit")


def read_tenant(body: dict[str, Any], owner: str, max_length: int | None = None) -> Tenant:
    """The tenant in these keys, those that are no field left alone; max_length lowers its context limit."""
    hints = typing.get_type_hints(Tenant)
    for key in REQUIRED:
        if key not in body:
            raise BadInput(f"{owner}: the key '{key}' is missing")
    values = {key: _value(body[key], hints[key], f"{owner}: {key}") for key in TENANT_FIELDS if key in body}
    if max_length is not None:
        values["context_limit"] = min(values["context_limit"], max_length)
    try:
        return Tenant(**values)
    except BadInput as error:
        raise BadInput(f"{owner}: {str(error).removeprefix(_tenant_prefix(values['name']))}") from None


def _tenant_prefix(name: str) -> str:
    return f"tenant '{name}': "


def _value(value: Any, hint: Any, where: str) -> Any:
    if hint in (int, str, bool):
        if type(value) is not hint:
            raise BadInput(f"{where}: expected {_words(hint)}, got {show(value)}")
        return value
    if hint == tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BadInput(f"{where}: expected a list of names, got {show(value)}")
        return tuple(value)
    if typing.get_origin(hint) is typing.Literal:
        if value not in typing.get_args(hint):
            raise BadInput(f"{where}: expected one of {', '.join(typing.get_args(hint))}, got {show(value)}")
        return value
    optional = type(None) in typing.get_args(hint)
    if value is None and optional:
        return None
    return number(value, where)


def _words(hint: type) -> str:
    return {int: "a whole number", str: "text", bool: "true or false"}[hint]
