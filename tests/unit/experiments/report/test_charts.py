"""Charts as Plotly's data: places, intervals, order, text without markup."""

import pytest

import report_answers
from experiments.report.charts import drawn, plotted, table
from experiments.whatif.answer import Chart, Series

LINE, WORDS, BARS, STACK, TORNADO, TIMELINE, NOTHING = report_answers.charts()


def test_interval_ends_are_distances_from_the_value_and_none_is_no_bar():
    error = plotted(LINE)["data"][0]["error_y"]
    assert (error["array"], error["arrayminus"]) == ([15.0, 15.0, 0.0, 0.0], [15.0, 15.0, 0.0, 0.0])


def test_a_line_joins_its_points_and_nothing_joins_beaten_ones():
    frontier, beaten = plotted(LINE)["data"]
    assert frontier["mode"] == "lines+markers+text"
    assert beaten["mode"] == "markers+text"


def test_a_limit_is_a_line_without_points():
    series = (Series("p95", (8, 16), (9.0, 7.0)), Series("promised", (8, 16), (8.0, 8.0)))
    assert [trace["mode"] for trace in plotted(Chart("line", "", "", "", series, ""))["data"]] == [
        "lines+markers",
        "lines",
    ]


def test_labels_that_would_cover_one_another_are_left_out():
    series = Series("s", (0.0, 1.0, 50.0, 100.0), (1.0,) * 4, text=("a", "b", "c", "d"))
    chart = Chart("line", "", "", "", (series,), "")
    assert plotted(chart)["data"][0]["text"] == ["a", "", "c", "d"]


def test_words_on_an_axis_are_places_with_labels():
    plot = plotted(WORDS)
    assert plot["data"][0]["x"] == [0, 1, 2]
    assert plot["layout"]["xaxis"]["ticktext"] == [
        "&lt;b&gt;x&lt;/b&gt;",
        "a&amp;b",
        "&lt;/script&gt;&lt;script&gt;aler…",
    ]


def test_names_that_begin_alike_keep_places_of_their_own():
    names = ("m" * 300 + "1", "m" * 300 + "2")
    plot = plotted(Chart("bar", "", "", "", (Series("s", names, (1.0, 2.0)),), ""))
    assert plot["data"][0]["y"] == [0, 1]
    assert plot["layout"]["yaxis"]["ticktext"] == ["m" * 21 + "…"] * 2


def test_numbers_as_words_of_bars_stay_in_their_order():
    plot = plotted(Chart("bar", "", "", "", (Series("s", (64, 8, 16), (1.0, 2.0, 3.0)),), ""))
    assert plot["layout"]["yaxis"]["ticktext"] == ["64", "8", "16"]


@pytest.mark.parametrize("chart", report_answers.charts(), ids=lambda chart: f"{chart.kind} {chart.title}")
def test_no_text_of_a_chart_is_markup_for_plotly(chart):
    """Plotly reads tags in names, labels, ticks and tooltips: only our own line breaks and emphasis may be left."""
    plot = plotted(chart)
    texts = list(strings(plot["data"])) + list(strings(plot["layout"]))
    for text in texts:
        bare = text.replace("<br>", "").replace("<b>", "").replace("</b>", "").replace("<extra></extra>", "")
        assert "<" not in bare
        assert ">" not in bare
    templates = {trace["hovertemplate"] for trace in plot["data"]}
    assert templates == {"%{hovertext}<extra></extra>"}  # a name with %{y} in it is never a template


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def test_a_tornado_lies_between_what_is_and_what_becomes_of_it():
    plot = plotted(TORNADO)
    assert plot["layout"]["xaxis"]["title"]["text"] == "GPUs"
    assert plot["layout"]["yaxis"]["ticktext"][:2] == ["lengths", "price"]
    minus, plus = plot["data"]
    assert (minus["y"], minus["base"], minus["x"]) == ([0, 1, 2], [20.0, 20.0, 20.0], [-4.0, -1.0, None])
    assert plus["x"] == [5.0, 1.0, 0.5]
    assert table(TORNADO)[0] == ("assumption", "series", "GPUs")
    assert len(table(TORNADO)[1]) == 9


def test_a_tornado_of_changes_begins_at_nothing():
    chart = Chart("tornado", "", "", "", (Series("+10 %", ("mfu",), (-3.0,)),), "")
    (trace,) = plotted(chart)["data"]
    assert (trace["base"], trace["x"]) == ([0.0], [-3.0])


def test_a_timeline_lies_where_it_starts_and_counts_replicas_in_their_order():
    plot = plotted(TIMELINE)
    assert plot["layout"]["yaxis"]["ticktext"] == ["0: tp 2", "2: tp 1", "10: tp 1"]
    forward = plot["data"][0]
    assert (forward["base"], forward["x"], forward["y"]) == ([0.0, 0.0, 1.5], [1.0, 0.5, 0.5], [0, 2, 1])


def test_series_differ_without_colour():
    assert len({trace["marker"]["pattern"]["shape"] for trace in plotted(STACK)["data"]}) == 2
    assert len({(trace["marker"]["symbol"], trace["line"]["dash"]) for trace in plotted(LINE)["data"]}) == 2


def test_a_chart_without_a_value_is_not_drawn():
    assert not drawn(NOTHING)
    assert drawn(BARS)


def test_the_table_of_a_chart_holds_every_point_with_its_interval():
    columns, rows = table(LINE)
    assert columns == ("finish p95, hours", "series", "USD", "low", "high", "note")
    assert rows[0] == (19.0, "frontier", 105.0, 90.0, 120.0, "8 GPUs")
    assert rows[-1] == (12.0, "beaten", 140.0, None, None, "<b>x</b>")
    assert len(rows) == 5


def test_the_table_of_a_timeline_adds_up_each_row():
    columns, rows = table(TIMELINE)
    assert columns == ("replica", "part", "how many", "seconds in all")
    assert rows[0] == ("0: tp 2", "forward", 1, 1.0)
    assert len(rows) == 5
