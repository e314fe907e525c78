"""The page: text stays text, nothing is loaded, everything has a name, equal answers give equal bytes."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

import report_answers
from experiments.report.page import page
from report_answers import HOSTILE

VOID = {"meta", "img", "br", "link", "input", "hr"}
URL = re.compile(r"""(?:src|href|action|data)\s*=\s*["']?\s*(?:https?:)?//|\burl\(|@import|\bfetch\(|XMLHttpRequest""")


class Outline(HTMLParser):
    """What a browser would make of the page: elements, their attributes, what is text and what is script."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    def having(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def html():
    return page([report_answers.answer(), report_answers.answer(question="frontier", basis="derived")])


@pytest.fixture(scope="module")
def outline(html):
    return Outline(html)


def test_every_element_is_closed_where_it_was_opened(outline):
    assert outline.open == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tenants_name_is_text_in_tables_titles_and_data(outline, name):
    """Case S16 of the public bug reports, and worse names."""
    assert name in outline.words  # a cell that holds the name and nothing else
    assert not outline.having("img")
    assert len(outline.having("b")) == 2  # the two links to sections: none of a tenant
    assert len(outline.scripts) == 4  # data, charts, plotly.js, ours: none of a tenant
    data = json.loads(outline.scripts[0])
    assert [row[0] for row in data["answers"][0]["sheets"][0]["rows"]][HOSTILE.index(name)] == name


def test_a_name_in_title_sentence_and_provenance_is_text(outline):
    assert "What does <b>x</b> take?" in outline.words
    assert "All but </script><script>alert(1)</script> finish." in outline.words
    assert '"quote" 2.69 USD per GPU hour, read on 2026-11-09' in outline.words


def test_scripts_run_by_their_hash_alone_and_the_network_is_forbidden(outline):
    (policy,) = [each["content"] for each in outline.having("meta") if "http-equiv" in each]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.partition("style-src")[0]
    assert "unsafe-eval" not in policy
    assert "http" not in policy


def test_nothing_of_ours_is_loaded_from_anywhere(html, outline):
    ours = html.replace(outline.scripts[2], "")  # without plotly.js, which holds addresses of maps it never draws here
    assert not URL.search(ours)
    assert all(set(each) <= {"type", "id"} for each in outline.having("script"))
    assert not outline.having("link")


def test_identifiers_are_unique_and_every_reference_has_its_element(outline):
    found = [each["id"] for _, each in outline.elements if "id" in each]
    assert len(found) == len(set(found))
    for _, each in outline.elements:
        for key in ("aria-labelledby", "aria-describedby"):
            assert set((each.get(key) or "").split()) <= set(found)
        if (each.get("href") or "").startswith("#"):
            assert each["href"][1:] in found


def test_a_screen_reader_finds_landmarks_headings_and_headers(outline):
    tags = [tag for tag, _ in outline.elements]
    assert [tags.count(each) for each in ("header", "nav", "main", "footer", "h1")] == [1] * 5
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert outline.having("html") == [{"lang": "en"}]
    assert {each["scope"] for each in outline.having("th")} == {"col", "row"}
    assert tags.count("caption") == tags.count("table")
    assert outline.having("a")[0] == {"class": "skip", "href": "#answers"}


def test_every_chart_has_a_name_a_telling_and_its_data(outline):
    charts = 2 * len(report_answers.charts())
    plots = [each for each in outline.having("div") if each.get("class") == "plot"]
    assert len(plots) == charts - 2  # one of each answer knows no value
    assert all(each["role"] == "img" and "aria-labelledby" in each and "aria-describedby" in each for each in plots)
    tags = [tag for tag, _ in outline.elements]
    assert tags.count("figcaption") == tags.count("details") == charts


def test_what_weakens_an_answer_is_said_in_words(outline):
    words = [each.strip() for each in outline.words]
    assert words.count("not a quote") == 1  # the second answer is derived
    assert words.count("extrapolated") == 2
    assert words.count("? undecided") == 4  # in the list of questions and in each section
    assert any("Not a quote" in each for each in words)


def test_what_is_not_known_is_a_dash_or_undecided_never_none(outline):
    assert "undecided" in outline.words
    assert not any(re.search(r"\b(None|NaN|nan|null|inf)\b", each) for each in outline.words)


def test_equal_answers_give_equal_bytes(html):
    again = page([report_answers.answer(), report_answers.answer(question="frontier", basis="derived")])
    assert again == html


def test_another_value_gives_another_page(html):
    assert page([report_answers.answer(verdict="feasible")]) != html
