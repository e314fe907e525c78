"""Charts as Plotly's data: traces and layout without colours, which `draw.js` takes from the page's theme.

Words on an axis become places 0, 1, 2, ... with labels, so that equal or shortened names never fall together. Systems
differ by marker, dash or hatching beside colour. Texts go through `text.label`: Plotly would read tags in them.
"""

from collections.abc import Sequence
from typing import Any

from experiments.report.text import label, short, shown
from experiments.whatif.answer import Cell, Chart, Series

MARKERS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
HATCHES = ("", "/", ".", "\\", "x", "-", "|", "+")
LOOSE = ("beaten",)  # points that no line joins: nothing lies between them
NOW = "as it is"  # the series of a tornado that the others are measured from
APART = 0.06  # of an axis: points that are nearer to one with a label have theirs in tooltip and table alone
ROW, FRAME, LEAST = 30, 150, 240  # pixels: of a bar, of title, axis and legend, of a chart

Trace = dict[str, Any]


def plotted(chart: Chart) -> dict[str, Any]:
    """`data` and `layout` of a chart."""
    make = {"line": _line, "bar": _bars, "stacked": _bars, "tornado": _tornado, "timeline": _timeline}[chart.kind]
    return make(chart)


def drawn(chart: Chart) -> bool:
    """Whether there is anything to draw."""
    return any(y is not None for series in chart.series for y in series.y)


def _line(chart: Chart) -> dict[str, Any]:
    names = _words(cell for series in chart.series for cell in series.x)
    data = [_one_line(chart, series, number, names) for number, series in enumerate(chart.series)]
    x_axis = {"title": {"text": label(chart.x_label)}} | (_places(names) if names else {})
    return {"data": data, "layout": _layout(x_axis, {"title": {"text": label(chart.y_label)}}, 400, len(data))}


def _one_line(chart: Chart, series: Series, number: int, names: list[str]) -> Trace:
    loose = series.name in LOOSE
    level = len(series.y) > 1 and len(set(series.y)) == 1  # a limit rather than points that were found
    texts = _labels(series)
    trace: Trace = {
        "type": "scatter",
        "name": short(series.name, 40),
        "mode": ("markers" if loose else "lines" if level else "lines+markers") + ("+text" if texts else ""),
        "x": [names.index(str(cell)) if names else cell for cell in series.x],
        "y": list(series.y),
        "marker": {"symbol": MARKERS[number % len(MARKERS)] + ("-open" if loose else ""), "size": 9},
        "line": {"dash": DASHES[number % len(DASHES)], "width": 2},
        "hovertext": _hovers(chart, series),
        "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
    }
    if texts:
        trace |= {"text": texts, "textposition": "top right"}
    return trace | _errors("error_y", series)


def _labels(series: Series) -> list[str]:
    """The texts that have room along the axis, the others empty; none where x are words."""
    places = [x for x in series.x if isinstance(x, int | float)]
    if not series.text or len(places) < len(series.x):
        return []
    span = max(places) - min(places)
    taken: list[float] = []
    found: list[str] = []
    for x, text in zip(places, series.text, strict=True):
        room = all(abs(x - other) >= APART * span for other in taken)
        taken += [x] if room else []
        found.append(short(text) if room else "")
    return found


def _bars(chart: Chart) -> dict[str, Any]:
    """Lying bars: names need no turning, and a narrow screen has room for them."""
    names = _words((cell for series in chart.series for cell in series.x), every=True)
    data = []
    for number, series in enumerate(chart.series):
        trace = _lying(chart, series, number)
        trace |= {"y": [names.index(str(cell)) for cell in series.x], "x": list(series.y)}
        data.append(trace | _errors("error_x", series))
    stacked = chart.kind == "stacked"
    rows = len(names) * (1 if stacked else max(1, 0.7 * len(data)))
    height = max(LEAST, FRAME + int(ROW * rows) + (22 * (len(data) // 3) if stacked else 0))
    layout = _layout({"title": {"text": label(chart.y_label)}, "rangemode": "tozero"}, _rows(names), height, len(data))
    return {"data": data, "layout": layout | {"barmode": "stack" if stacked else "group", "bargap": 0.25}}


def _tornado(chart: Chart) -> dict[str, Any]:
    """Bars from what is to what becomes of it, in the order given; from nothing where no series says what is."""
    names = _words((cell for series in chart.series for cell in series.x), every=True)
    now = {str(x): y for series in chart.series if series.name == NOW for x, y in zip(series.x, series.y, strict=True)}
    data = []
    for number, series in enumerate(each for each in chart.series if each.name != NOW):
        starts = [now.get(str(cell)) or 0.0 for cell in series.x]
        data.append(
            _lying(chart, series, number)
            | {
                "y": [names.index(str(cell)) for cell in series.x],
                "base": starts,
                "x": [None if y is None else y - start for start, y in zip(starts, series.y, strict=True)],
            }
        )
    height = max(LEAST, FRAME + ROW * len(names))
    layout = _layout({"title": {"text": label(chart.x_label)}}, _rows(names), height, len(data))
    return {"data": data, "layout": layout | {"barmode": "overlay", "bargap": 0.3}}


def _lying(chart: Chart, series: Series, number: int) -> Trace:
    """A bar that lies, hatched by its number."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": short(series.name, 40),
        "marker": {"pattern": {"shape": HATCHES[number % len(HATCHES)], "fillmode": "overlay", "size": 7}},
        "hovertext": _hovers(chart, series),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _timeline(chart: Chart) -> dict[str, Any]:
    names = list(dict.fromkeys(row for series in chart.series for row in series.rows))
    names.sort(key=_natural)
    data = [
        _lying(chart, series, number)
        | {
            "y": [names.index(row) for row in series.rows],
            "base": list(series.x),
            "x": list(series.y),
            "width": 0.8,
            "hovertext": [
                f"{label(row)}: {label(series.name)}<br>from {label(shown(start))}, {label(shown(length))} long"
                for row, start, length in zip(series.rows, series.x, series.y, strict=True)
            ],
        }
        for number, series in enumerate(chart.series)
    ]
    height = max(LEAST, FRAME + 26 * len(names))
    layout = _layout({"title": {"text": label(chart.x_label)}}, _rows(names), height, len(data))
    return {"data": data, "layout": layout | {"barmode": "overlay"}}


def _natural(name: str) -> tuple[int, str]:
    """Rows that begin with a number stand in its order."""
    head = name.partition(":")[0]
    return (int(head) if head.isdecimal() else 0, name)


def _errors(key: str, series: Series) -> Trace:
    """Interval ends as distances from the value; none where there is no end."""
    if not series.low and not series.high:
        return {}
    none = (None,) * len(series.y)
    above = [_apart(high, y) for high, y in zip(series.high or none, series.y, strict=True)]
    below = [_apart(y, low) for low, y in zip(series.low or none, series.y, strict=True)]
    return {key: {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.5}}


def _apart(high: float | None, low: float | None) -> float:
    return 0.0 if high is None or low is None else max(0.0, high - low)


def _hovers(chart: Chart, series: Series) -> list[str]:
    found = []
    place_label, value_label = _labels_of(chart)
    for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        lines = [f"<b>{label(series.name)}</b>", f"{label(place_label or 'at')}: {label(shown(x))}"]
        lines.append(f"{label(value_label or 'value')}: {label(shown(y))}")
        low = series.low[place] if series.low else None
        high = series.high[place] if series.high else None
        if low is not None or high is not None:
            lines.append(f"interval {label(shown(low))} to {label(shown(high))}")
        if series.text and series.text[place]:
            lines.append(label(series.text[place]))
        found.append("<br>".join(lines))
    return found


def _labels_of(chart: Chart) -> tuple[str, str]:
    """What x and y of its series are; of a tornado the axes are named as they lie, with the values along."""
    return (chart.y_label, chart.x_label) if chart.kind == "tornado" else (chart.x_label, chart.y_label)


def _words(cells: Any, *, every: bool = False) -> list[str]:
    """The distinct words of an axis; none where all of it are numbers, unless every cell is to be a word."""
    found = list(cells)
    return list(dict.fromkeys(map(str, found))) if every or any(isinstance(each, str) for each in found) else []


def _places(names: Sequence[str]) -> dict[str, Any]:
    return {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": [short(name) for name in names]}


def _rows(names: Sequence[str]) -> dict[str, Any]:
    return _places(names) | {"range": [len(names) - 0.4, -0.6], "showgrid": False, "zeroline": False}


def _layout(x_axis: dict[str, Any], y_axis: dict[str, Any], height: int, traces: int) -> dict[str, Any]:
    return {"height": height, "showlegend": traces > 1, "xaxis": x_axis, "yaxis": y_axis}


def table(chart: Chart) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    """The same data as columns and rows; of a timeline what each line adds up to."""
    if chart.kind == "timeline":
        return _sums(chart)
    ends, texts = (any(getattr(series, key) for series in chart.series) for key in ("low", "text"))
    place, value = _labels_of(chart)
    columns = (place or "what", "series", value or "value")
    rows = []
    for series in chart.series:
        none = ("",) * len(series.x)
        low, high = (each or (None,) * len(series.x) for each in (series.low, series.high))
        for x, y, *rest, text in zip(series.x, series.y, low, high, series.text or none, strict=True):
            rows.append((x, series.name, y, *(rest if ends else ()), *((text,) if texts else ())))
    return (*columns, *(("low", "high") if ends else ()), *(("note",) if texts else ())), tuple(rows)


def _sums(chart: Chart) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
    names = sorted({row for series in chart.series for row in series.rows}, key=_natural)
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for series in chart.series:
            lengths = [y or 0.0 for y, row in zip(series.y, series.rows, strict=True) if row == name]
            if lengths:
                rows.append((name, series.name, len(lengths), sum(lengths)))
    return (chart.y_label or "row", "part", "how many", f"{chart.x_label or 'length'} in all"), tuple(rows)
