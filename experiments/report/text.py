"""Text and numbers on their way into a page: escaped, shortened, written for people."""

import html
import json
from typing import Any

from experiments.whatif.answer import Cell
from experiments.whatif.telling import cell

NONE = "–"  # noqa: RUF001 -- a dash, as printed tables have it
LONGEST = 22  # characters of a label beside an axis; the whole name is in tooltip and table


def safe(text: str) -> str:
    """Text as HTML, in elements and in attributes."""
    return html.escape(text, quote=True)


def shown(value: Cell) -> str:
    """A cell for people: a dash for what is not known, thousands apart."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1e4:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "\N{MINUS SIGN}")
    return cell(value).replace("-", "\N{MINUS SIGN}")


def label(text: str) -> str:
    """Text that Plotly shows as it is: it reads tags and entities in every label."""
    return html.escape(" ".join(text.split()), quote=False)


def short(text: str, longest: int = LONGEST) -> str:
    """A label that leaves room for the chart."""
    text = " ".join(text.split())
    return label(text if len(text) <= longest else text[: longest - 1] + "…")


def embedded(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
