"""Tables, their CSV, and numbers for people."""

import csv
import io
from urllib.parse import unquote

import pytest

from experiments.report.tabular import csv_link, table_html
from experiments.report.text import embedded, label, short, shown
from report_answers import HOSTILE


def read(link):
    text = unquote(link.removeprefix("data:text/csv;charset=utf-8,"))
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_the_csv_holds_full_numbers_and_nothing_for_what_is_not_known():
    assert read(csv_link(("who", "h"), (("a", 1 / 3), ("b", None)))) == [["who", "h"], ["a", str(1 / 3)], ["b", ""]]


def test_a_spreadsheet_never_calculates_a_name():
    rows = read(csv_link(("who", "change"), (("=cmd()", -1.5), ("+1", 2), ("@x", 0), ("-x", 1))))
    assert [row[0] for row in rows[1:]] == ["'=cmd()", "'+1", "'@x", "'-x"]
    assert rows[1][1] == "-1.5"  # a number stays one


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_comes_out_of_the_csv_as_it_went_in(name):
    assert read(csv_link(("who",), ((name,),)))[1][0].removeprefix("'" if name[0] in "=-" else "") == name
    assert not set(csv_link((name,), ((name,),))) & set("<>\"'& ")  # safe in an attribute


def test_numbers_stand_right_and_rows_have_a_header():
    html = table_html("t", "title", ("who", "h", "GPUs"), (("a", 1.5, 16), ("b", None, 8)))
    assert '<th scope="row" class="brief">a</th><td class="number">1.5</td><td class="number">16</td>' in html
    assert '<td class="number">–</td>' in html  # noqa: RUF001 -- the dash of a missing value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),  # noqa: RUF001
        (16, "16"),
        (63861.7, "63\u202f862"),
        (1234567, "1\u202f234\u202f567"),
        (0.93323, "0.9332"),
        (-4.5, "\u22124.5"),
        ("-x", "-x"),
        (0.0, "0"),
    ],
)
def test_numbers_are_written_for_people(value, text):
    assert shown(value) == text


def test_plotly_gets_entities_for_tags_and_one_line():
    assert label("a <b>&\n c") == "a &lt;b&gt;&amp; c"
    assert short("n" * 300) == "n" * 21 + "…"


def test_embedded_json_cannot_end_its_element():
    text = embedded({"name": "</script><!--\u2028&"})
    assert not set(text) & set("<>&\u2028")
