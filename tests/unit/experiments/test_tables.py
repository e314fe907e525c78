"""Tables for people."""

import io

import pytest

from experiments.tables import footnotes, plan_text, print_comparison

PLAN = "<1,1>x12 " * 20 + "<8,1>x1"
BODY = {
    "gpu_seconds": 173.25,
    "interval": [170.1, 176.9],
    "step_seconds": 10.828,
    "reduction": 0.4503,
    "reduction_interval": [0.44, 0.46],
    "padding": 0.06,
    "idle": 0.021,
    "plan_summaries": [PLAN],
    "planning_seconds": 1.234,
    "dispatch_seconds": 0.0456,
    "status": "measured",
    "notes": ["fitted range left"],
    "truncated": {"meetingbank": 3},
    "dropped": {},
}
SUMMARY = {
    "schema": 1,
    "baseline": "lobra",
    "policies": {"lobra": BODY, "packed": {"failed": "it prices no packs", "exit_code": 2}},
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def printed(stream):
    print_comparison(SUMMARY, stream)
    return stream.getvalue()


def test_a_plain_table_cuts_nothing():
    line = next(line for line in printed(io.StringIO()).splitlines() if line.startswith("lobra"))
    assert line.endswith(PLAN)
    for cell in ("10.828", "173.25", "170.10..176.90", "45.0 %", "44.0..46.0", "6.0 %", "2.1 %", "1.23", "45.6"):
        assert cell in line


@pytest.mark.parametrize("width", ["60", "200"])
def test_a_table_on_a_terminal_cuts_nothing_however_narrow_it_is(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    text = printed(Terminal())
    assert f"lobra: {PLAN}\n" in text
    for cell in ("10.828", "170.10..176.90", "45.0 %", "44.0..46.0", "dispatch ms", "measured"):
        assert cell in text


def test_a_failed_policy_has_a_row_and_its_reason():
    line = next(line for line in printed(io.StringIO()).splitlines() if line.startswith("packed"))
    assert line.endswith("failed: it prices no packs")


def test_missing_intervals_and_reductions_are_shown_as_not_available():
    body = BODY | {"interval": None, "reduction": None, "reduction_interval": None}
    stream = io.StringIO()
    print_comparison({"baseline": "a", "policies": {"a": body}}, stream)
    assert stream.getvalue().splitlines()[2].count("n/a") == 3


def test_footnotes_name_the_baseline_the_notes_and_what_was_cut():
    notes = "\n".join(footnotes(SUMMARY))
    assert "against lobra" in notes
    assert "note: fitted range left (lobra)" in notes
    assert "truncated sequences: meetingbank 3" in notes
    assert "dropped" not in notes


@pytest.mark.parametrize(
    ("plans", "text"),
    [(["<8,1>x2"], "<8,1>x2"), (["x", "y", "x"], "2 tenants x; 1 tenants y")],
)
def test_plans_of_many_groups_are_counted(plans, text):
    assert plan_text(plans) == text


def test_cells_are_text_and_never_markup():
    stream = Terminal()
    print_comparison({"baseline": "a", "policies": {"a": BODY | {"plan_summaries": ["[bold]x[/bold]"]}}}, stream)
    assert "[bold]x[/bold]" in stream.getvalue()
