"""Tables as HTML with headers for screen readers, and as CSV that a spreadsheet opens."""

import csv
import io
import re
from collections.abc import Sequence
from urllib.parse import quote

from experiments.report.text import safe, shown
from experiments.whatif.answer import Cell

BRIEF = 28  # characters: text up to here is not broken
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would calculate text that begins so


def table_html(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, bare: bool = False
) -> str:
    """A table under its caption with a link to its CSV; wide ones scroll by mouse and keyboard. name: its id."""
    kinds = [_kind([row[place] for row in rows]) for place in range(len(columns))]
    head = "".join(
        f'<th scope="col" class="{kind}">{safe(column)}</th>' for column, kind in zip(columns, kinds, strict=True)
    )
    body = "".join(f"<tr>{_row(row, kinds)}</tr>\n" for row in rows)
    caption = f'<caption id="{name}-title"{" class=hidden" if bare else ""}>{safe(title)}</caption>'
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}-title"><table id="{name}">{caption}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
        f'<p class="save"><a download="{_file_name(name, title)}.csv" href="{csv_link(columns, rows)}">'
        f'CSV<span class="hidden"> of {safe(title)}</span></a></p>\n'
    )


def csv_link(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The table as a link that holds it: it works without a server, and without scripts."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow([_plain(column) for column in columns])
    writer.writerows([_plain(cell) for cell in row] for row in rows)
    return "data:text/csv;charset=utf-8," + quote("\ufeff" + sink.getvalue(), safe="")


def _file_name(name: str, title: str) -> str:
    """What the table is about, in letters that every file system takes."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return "-".join([name, *words])[:60]


def _plain(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _kind(cells: Sequence[Cell]) -> str:
    """How a column is set: numbers to the right, brief words on one line, others as wide as there is room."""
    known = [each for each in cells if each is not None]
    if known and all(isinstance(each, int | float) for each in known):
        return "number"
    return "brief" if all(len(shown(each)) <= BRIEF for each in known) else "long"


def _row(row: Sequence[Cell], kinds: Sequence[str]) -> str:
    first = f'<th scope="row" class="{kinds[0]}">{safe(shown(row[0]))}</th>' if row else ""
    rest = zip(row[1:], kinds[1:], strict=True)
    return first + "".join(f'<td class="{kind}">{safe(shown(cell))}</td>' for cell, kind in rest)
