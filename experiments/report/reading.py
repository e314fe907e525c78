"""Run directories as answers, checked field by field: what is drawn was understood."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from experiments.report.compared import comparison
from experiments.rundir import read_json
from experiments.whatif.answer import Answer, Basis, Cell, Chart, ChartKind, Figure, Series, Sheet, Verdict
from lobra.errors import BadInput

Noun = TypeVar("Noun")


def read_answer(run: Path) -> Answer:
    """The answer in a run directory; BadInput names the file, the field and what is wrong with it."""
    path = run / "summary.json"
    body = read_json(path)
    try:
        if body.get("kind") == "answer":
            return answer_of({key: value for key, value in body.items() if key not in ("schema", "kind")})
        if "policies" in body and "baseline" in body:
            return comparison(body, read_json(run / "run.json"))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"{path}: it is no whole summary ({type(error).__name__}: {error}); repeat the run") from None
    raise BadInput(f"{path}: it is no answer to report; give directories of `lobra whatif` or `lobra compare`")


def answer_of(body: dict[str, Any]) -> Answer:
    """`Answer.as_dict()` back; without its schema and kind."""
    return Answer(
        question=_text(body, "question"),
        asks=_text(body, "asks"),
        verdict=cast(Verdict, _choice(body, "verdict", get_args(Verdict))),
        sentences=_texts(body, "sentences"),
        figures=_each(body, "figures", _figure),
        sheets=_each(body, "sheets", _sheet),
        charts=_each(body, "charts", _chart),
        basis=cast(Basis, _choice(body, "basis", get_args(Basis))),
        extrapolated=_flag(body, "extrapolated"),
        provenance={str(key): str(value) for key, value in body["provenance"].items()},
        exit_code=int(body.get("exit_code", 0)),
        extra=dict(body.get("extra", {})),
    )


def _figure(body: dict[str, Any]) -> Figure:
    return Figure(
        _text(body, "name"),
        _number(body.get("value"), "value"),
        _text(body, "unit"),
        _number(body.get("low"), "low"),
        _number(body.get("high"), "high"),
        _number(body.get("level"), "level") or 0.9,
        int(body.get("samples", 1)),
        str(body.get("note", "")),
    )


def _sheet(body: dict[str, Any]) -> Sheet:
    rows = tuple(tuple(_cell(each) for each in row) for row in body["rows"])
    return Sheet(_text(body, "title"), _texts(body, "columns"), rows)


def _chart(body: dict[str, Any]) -> Chart:
    return Chart(
        cast(ChartKind, _choice(body, "kind", get_args(ChartKind))),
        _text(body, "title"),
        _text(body, "x_label"),
        _text(body, "y_label"),
        _each(body, "series", _series),
        _text(body, "tells"),
    )


def _series(body: dict[str, Any]) -> Series:
    name, x = _text(body, "name"), tuple(_cell(each) for each in body["x"])
    y, low, high = (tuple(_number(each, key) for each in body.get(key, ())) for key in ("y", "low", "high"))
    text, rows = _texts(body, "text", optional=True), _texts(body, "rows", optional=True)
    for what, values in (("y", y), ("low", low), ("high", high), ("text", text), ("rows", rows)):
        if len(values) != len(x) and (values or what == "y"):
            raise BadInput(f"series '{name}': {what} has {len(values)} values for {len(x)} of x")
    return Series(name, x, y, low, high, text, rows)


def _each(body: dict[str, Any], key: str, make: Callable[[dict[str, Any]], Noun]) -> tuple[Noun, ...]:
    found = []
    for number, item in enumerate(body[key]):
        try:
            found.append(make(item))
        except BadInput as error:
            raise BadInput(f"{key}[{number}]: {error}") from None
    return tuple(found)


def _text(body: dict[str, Any], key: str) -> str:
    value = body[key]
    if not isinstance(value, str):
        raise BadInput(f"{key}: expected text, got {value!r}")
    return value


def _texts(body: dict[str, Any], key: str, *, optional: bool = False) -> tuple[str, ...]:
    values = body.get(key, ()) if optional else body[key]
    if isinstance(values, str) or not all(isinstance(each, str) for each in values):
        raise BadInput(f"{key}: expected a list of texts, got {values!r}")
    return tuple(values)


def _choice(body: dict[str, Any], key: str, choices: tuple[str, ...]) -> str:
    if body[key] not in choices:
        raise BadInput(f"{key}: expected one of {', '.join(choices)}, got {body[key]!r}")
    return cast(str, body[key])


def _flag(body: dict[str, Any], key: str) -> bool:
    if not isinstance(body[key], bool):
        raise BadInput(f"{key}: expected true or false, got {body[key]!r}")
    return cast(bool, body[key])


def _number(value: Any, key: str) -> float | None:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise BadInput(f"{key}: expected a number or null, got {value!r}")


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, str):
        return value
    return _number(value, "cell")
