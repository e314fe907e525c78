"""One answer as a section: its sentence and verdict first, then figures, charts, tables and what they rest on."""

from typing import Any

from experiments.report.charts import drawn, plotted, table
from experiments.report.tabular import table_html
from experiments.report.text import NONE, safe, shown
from experiments.whatif.answer import Answer, Chart, Figure

VERDICTS = {
    "feasible": ("good", "✓", "feasible"),
    "yes": ("good", "✓", "yes"),
    "infeasible": ("bad", "✗", "infeasible"),
    "no": ("bad", "✗", "no"),
    "undecided": ("open", "?", "undecided"),
    "told": ("told", "●", "answered"),
}
BASES = {
    "measured": "Measured: times of this model on this hardware.",
    "derived": "Derived: computed from measured times of parts, or of another setting.",
    "roofline": "Roofline: computed from data sheets and fitted efficiencies; nothing was timed for this setting.",
}
NO_QUOTE = "Not a quote: money and hours that rest on roofline costs are an order of magnitude, never an offer."
EXTRAPOLATED = "Extrapolated: some costs were asked for beyond what was timed or fitted."
SPACE = "\N{NO-BREAK SPACE}"
SUMS = "What each row adds up to"


def section(number: int, answer: Answer) -> tuple[str, dict[str, Any]]:
    """Its HTML, and the data of its charts by the id of the place each is drawn in."""
    name = f"q{number}"
    charts = {f"{name}-chart{i}": chart for i, chart in enumerate(answer.charts, 1)}
    first, *others = answer.sentences or ("There is no answer.",)
    parts = [
        f'<section id="{name}" aria-labelledby="{name}-title">',
        f'<p class="kicker">{safe(answer.question)}</p>',
        f'<h2 id="{name}-title">{safe(answer.asks)}</h2>',
        f'<p class="badges">{badges(answer)}</p>',
        f'<p class="answer">{safe(first)}</p>',
        f'<ul class="limits">{"".join(f"<li>{safe(each)}</li>" for each in others)}</ul>' if others else "",
        _figures(name, answer),
        "".join(_chart(place, chart) for place, chart in charts.items()),
        _sheets(name, answer),
        _provenance(name, answer),
        "</section>\n",
    ]
    return "\n".join(filter(None, parts)), {place: plotted(chart) for place, chart in charts.items() if drawn(chart)}


def badges(answer: Answer) -> str:
    """The verdict, and what weakens it: in words and signs, not by colour alone."""
    kind, sign, word = VERDICTS[answer.verdict]
    found = [_badge(kind, f"{sign} {word}", "Verdict: "), _badge("plain", answer.basis, "Basis: ")]
    if answer.extrapolated:
        found.append(_badge("open", "extrapolated"))
    if answer.basis == "roofline":
        found.append(_badge("open", "not a quote"))
    return " ".join(found)


def _badge(kind: str, text: str, before: str = "") -> str:
    said = f'<span class="hidden">{before}</span>' if before else ""
    return f'<span class="badge {kind}">{said}{safe(text)}</span>'


def _figures(name: str, answer: Answer) -> str:
    if not answer.figures:
        return ""
    tiles = "".join(_tile(each) for each in answer.figures)
    return f'<h3 id="{name}-figures">Figures</h3>\n<dl class="tiles" aria-labelledby="{name}-figures">{tiles}</dl>'


def _tile(figure: Figure) -> str:
    """Value and interval; `n` says how many plays are behind them."""
    value = f'<span class="value">{safe(shown(figure.value))}</span> <span class="unit">{safe(figure.unit)}</span>'
    if figure.value is None:
        value = '<span class="value">undecided</span>'
    lines = []
    if figure.low is not None or figure.high is not None:
        ends = f"{shown(figure.low)} to {shown(figure.high)}"
        lines.append(f"{100 * figure.level:.0f}{SPACE}% interval {ends}")
    if figure.samples > 1:
        lines.append(f"n{SPACE}={SPACE}{figure.samples}")
    lines = [safe(", ".join(lines))] if lines else []
    if figure.note:
        lines.append(safe(figure.note))
    small = "".join(f'<dd class="small">{line}</dd>' for line in lines)
    return f"<div><dt>{safe(figure.name)}</dt><dd>{value}</dd>{small}</div>"


def _chart(place: str, chart: Chart) -> str:
    """The picture, the sentence that tells it, and the same data as a table."""
    columns, rows = table(chart)
    title = f"{SUMS}: {chart.title}" if chart.kind == "timeline" else f"Data: {chart.title}"
    if drawn(chart):
        height = plotted(chart)["layout"]["height"]
        picture = (
            f'<div class="plot" id="{place}" role="img" aria-labelledby="{place}-title" '
            f'aria-describedby="{place}-tells" style="min-height:{height}px"></div>'
            f"<noscript><p>The chart is drawn by a script; its data stand below.</p></noscript>"
        )
    else:
        picture = f'<p class="small">{NONE} there is nothing to draw: no value is known</p>'
    return (
        f'<figure class="chart" aria-labelledby="{place}-title"><h3 id="{place}-title">{safe(chart.title)}</h3>\n'
        f'{picture}\n<figcaption id="{place}-tells">{safe(chart.tells)}</figcaption>\n'
        f"<details><summary>Data of this chart</summary>\n"
        f"{table_html(f'{place}-data', title, columns, rows, bare=True)}</details></figure>\n"
    )


def _sheets(name: str, answer: Answer) -> str:
    return "".join(
        table_html(f"{name}-table{number}", sheet.title, sheet.columns, sheet.rows)
        for number, sheet in enumerate(answer.sheets, 1)
    )


def _provenance(name: str, answer: Answer) -> str:
    said = [BASES[answer.basis]]
    if answer.extrapolated:
        said.append(EXTRAPOLATED)
    if answer.basis == "roofline":
        said.append(NO_QUOTE)
    rows = "".join(f"<div><dt>{safe(key)}</dt><dd>{safe(text)}</dd></div>" for key, text in answer.provenance.items())
    return (
        f'<aside class="provenance" aria-labelledby="{name}-rests"><h3 id="{name}-rests">What this rests on</h3>\n'
        f"<p>{safe(' '.join(said))}</p>\n<dl>{rows}</dl></aside>"
    )
