"""Hydra's and OmegaConf's errors as one clear line: the full key, what is wrong, the nearest valid name."""

import re
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

from experiments import schema, schema_executor, schema_policy, schema_results, schema_whatif

ConfigurationError = (HydraException, OmegaConfBaseException)


def one_line(error: BaseException) -> str:
    """What is wrong with the configuration."""
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if isinstance(cause, MissingMandatoryValue):
        key = cause.full_key or _first(str(cause))
        return f"{key}: a value is missing; give {key}=VALUE"
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _unknown_key(cause)
    if isinstance(cause, ValidationError):
        return _wrong_type(cause)
    if isinstance(error, MissingConfigException):
        return _unknown_option(error)
    if isinstance(error, ConfigCompositionException) and (found := _GROUP.search(str(error))):
        hint = "name policies by policies=[NAME,...]" if found[1] == "policy" else "`--help` lists the groups"
        return f"{found[1]}: there is no such group here; {hint}"
    if isinstance(error, OverrideParseException):
        return _unreadable(str(error.override))
    if (found := _INSIDE.search(str(error))) is not None:
        return f"{found[1]}: {_lower(found[2])}; it sets what the chosen options do not have"
    if (found := _AMBIGUOUS.search(str(error))) is not None:
        key = found[1].partition("=")[0]
        way = f"write {key}=[...] for a list, \"{key}='...'\" for a text, or add -m to sweep over them"
        return f"{key}: {found[1]} lists several values; {way}"
    return _lower(_first(str(error)))


def _unreadable(override: str) -> str:
    key, equals, value = override.partition("=")
    way = (
        f"a text with such signs goes in quotes of its own: \"{key}='{value}'\"" if key and value else "write KEY=VALUE"
    )
    return f"{override}: it cannot be read{' as it stands' if equals else ''}; {way}"


_GROUP = re.compile(r"Could not override '([^']+)'")
_OPTION = re.compile(r"Could not find '([^']+)'")
_INSIDE = re.compile(r"In '([^']+)': \w+ raised while composing config:\n(.+)")
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '([^']+)'")


def _wrong_type(error: OmegaConfBaseException) -> str:
    key, text = str(error.full_key), _first(str(error.msg or error))
    for mark, wanted in _WANTED.items():
        if mark in text:
            value = f" is {error.value!r}" if error.value is not None else ""
            return f"{key}{value}: {wanted}"
    return f"{key}: {_lower(text)}"


_WANTED = {
    "to Integer": "give a whole number",
    "to Float": "give a number",
    "valid bool": "give true or false",
    "not Optional": "it cannot be null; give a value",
    "not a ListConfig": "give a list, [VALUE,...]",
}


def _unknown_key(error: OmegaConfBaseException) -> str:
    key = error.full_key or str(error.key)
    owner = key.rpartition(".")[0]
    known = [f"{owner}.{name}" if owner else name for name in _keys(error)]
    return f"{key}: there is no such key; {_nearest(key, known)}"


_TWINS = tuple(each.__name__ for each in (schema, schema_executor, schema_policy, schema_results, schema_whatif))


def _keys(error: OmegaConfBaseException) -> list[str]:
    """Keys of the part of the configuration in which the unknown one was sought."""
    kind = error.object_type
    if not isinstance(kind, type) or kind.__module__ not in _TWINS:
        return []
    known = [field.name for field in fields(kind)]
    return [*known, "experiment"] if issubclass(kind, schema.World) else known


def _unknown_option(error: MissingConfigException) -> str:
    found = _OPTION.search(str(error))
    group, _, option = (found[1] if found else str(error.missing_cfg_file)).rpartition("/")
    return f"{group}: there is no option {option!r}; {_nearest(option, list(error.options or ()))}"


def _nearest(name: str, known: Sequence[str]) -> str:
    longer = sorted((one for one in known if one.startswith(name)), key=len)
    near = longer or get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]}? " if near else ""
    return f"{guess}choose from {', '.join(sorted(known))}" if known else "`--help` lists the keys"


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
