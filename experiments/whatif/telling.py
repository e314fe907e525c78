"""An answer for people: its sentences, its tables, what the numbers rest on."""

import sys
from collections.abc import Iterator
from typing import TextIO

from experiments.tables import print_table
from experiments.whatif.answer import Answer, Cell, Figure

FIGURE_COLUMNS = ("figure", "value", "unit", "90 % interval", "n", "note")


def tell(answer: Answer, stream: TextIO | None = None) -> None:
    """Sentences first, then the numbers behind them."""
    stream = stream or sys.stdout
    stream.write(f"{answer.question}: {answer.asks}\n")
    stream.write("".join(f"{line}\n" for line in answer.sentences))
    if answer.figures:
        stream.write("\n")
        print_table(FIGURE_COLUMNS, [_figure(each) for each in answer.figures], stream)
    for sheet in answer.sheets:
        stream.write(f"\n{sheet.title}\n")
        print_table(sheet.columns, [[cell(each) for each in row] for row in sheet.rows], stream)
    stream.write("\n" + "".join(f"{line}\n" for line in _standing(answer)))


def cell(value: Cell) -> str:
    """A cell as text; what is not known is a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return str(value)


def interval(figure: Figure) -> str:
    """Both ends, or the one there is."""
    if figure.low is None and figure.high is None:
        return "-"
    return f"{cell(figure.low)}..{cell(figure.high)}"


def _figure(figure: Figure) -> tuple[str, ...]:
    return (figure.name, cell(figure.value), figure.unit, interval(figure), str(figure.samples), figure.note)


def _standing(answer: Answer) -> Iterator[str]:
    beyond = ", in part beyond what was timed" if answer.extrapolated else ""
    yield f"basis: {answer.basis}{beyond}"
    for key, value in answer.provenance.items():
        yield f"{key}: {value}"
