"""A price file: dated rows in YAML to a price book; what is amiss is named by row and key."""

from collections.abc import Iterable, Sequence
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from experiments.capacity.prices import Line, Price, PriceBook, What, one_of
from lobra.errors import BadInput
from workloads.strict_yaml import LARGEST_FILE, mapping, number, read_yaml, show

BOOKS = "books"  # not in conf/: a folder there would make `prices=FILE` a Hydra group, and no path could be given
OFFER_NEEDS = ("gpu", "provider", "amount", "unit", "kind", "gpus_per_node", "source", "read_on")
OFFER_MAY = ("discount", "minimum_nodes", "notice_seconds")
LINE_NEEDS = ("provider", "what", "amount", "unit", "source", "read_on")


def shipped() -> tuple[str, ...]:
    """Names of the price files that come with the project."""
    folder = resources.files(__package__) / BOOKS
    return tuple(sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml")))


def read_prices(named: str | Path) -> PriceBook:
    """A shipped file by its name, or any by its path."""
    if str(named) in shipped():
        return parsed((resources.files(__package__) / BOOKS / f"{named}.yaml").read_bytes(), str(named))
    path = Path(named)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput(f"prices '{path.name}': it has more than {LARGEST_FILE} bytes; cut it")
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"prices '{named}': it cannot be read ({error.strerror}); give a path, or one of {', '.join(shipped())}"
        ) from None
    return parsed(raw, path.stem)


def parsed(raw: bytes, name: str) -> PriceBook:
    """The book in these bytes of YAML; BadInput names the row and the key."""
    owner = f"prices '{name}'"
    body = mapping(
        read_yaml(raw, owner), owner, ("schema", "kind", "currency", "offers", "lines"), ("schema", "kind", "currency")
    )
    if (body["schema"], body["kind"]) != (1, "prices"):
        raise BadInput(
            f"{owner}: schema and kind are {body['schema']!r} and {body['kind']!r}; 1 and 'prices' are needed"
        )
    offers = [_offer(row, f"{owner}, offer {at}") for at, row in enumerate(_rows(body, "offers", owner), 1)]
    lines = [_line(row, f"{owner}, line {at}") for at, row in enumerate(_rows(body, "lines", owner), 1)]
    return PriceBook(name, str(body["currency"]), tuple(offers), tuple(lines))


def _rows(body: dict[str, Any], key: str, owner: str) -> list[Any]:
    rows = body.get(key) or []
    if not isinstance(rows, list):
        raise BadInput(f"{owner}: {key} is {show(rows)}; give a list of rows")
    return rows


def _offer(row: Any, owner: str) -> Price:
    row = _named(row, owner, OFFER_NEEDS, OFFER_MAY)
    notice = row.get("notice_seconds")
    return Price(
        _text(row, "gpu", owner),
        _text(row, "provider", owner),
        number(row["amount"], f"{owner}: amount"),
        row["unit"],
        row["kind"],
        _whole(row["gpus_per_node"], f"{owner}: gpus_per_node"),
        _text(row, "source", owner),
        _day(row["read_on"]),
        number(row.get("discount", 0.0), f"{owner}: discount"),
        _whole(row.get("minimum_nodes", 1), f"{owner}: minimum_nodes"),
        None if notice is None else number(notice, f"{owner}: notice_seconds"),
    )


def _line(row: Any, owner: str) -> Line:
    row = _named(row, owner, LINE_NEEDS, ())
    one_of(owner, "what", row["what"], get_args(What))
    amount = number(row["amount"], f"{owner}: amount")
    provider, source = _text(row, "provider", owner), _text(row, "source", owner)
    return Line(provider, row["what"], amount, str(row["unit"]), source, _day(row["read_on"]))


def _named(row: Any, owner: str, needs: Sequence[str], may: Iterable[str]) -> dict[str, Any]:
    """A row with all it needs; a message names the row by what it is of."""
    if isinstance(row, dict):
        told = [str(row[key]) for key in ("gpu", "what", "provider", "kind") if row.get(key)]
        owner = f"{owner} ({' '.join(told)})" if told else owner
        for key in ("source", "read_on"):
            if not row.get(key):
                raise BadInput(f"{owner}: {key} is missing; every price says where and when it was read")
    return mapping(row, owner, (*needs, *may), needs)


def _day(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _text(row: dict[str, Any], key: str, owner: str) -> str:
    value = row[key]
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"{owner}: {key} is {show(value)}; give a name")
    return value.strip()


def _whole(value: Any, owner: str) -> int:
    if type(value) is not int or value < 1:
        raise BadInput(f"{owner} is {show(value)}; give a whole number, 1 or more")
    return value
