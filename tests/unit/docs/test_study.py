"""The page of the study names only what there is."""

import re
from pathlib import Path

import pytest

from experiments.study.catalogue import STUDIES

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "study.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("figure", re.findall(r"\]\((figures/[^)]+)\)", PAGE))
def test_every_figure_is_there(figure):
    assert (DOCS / figure).read_bytes().startswith(b"\x89PNG")


def test_every_study_is_named_and_no_other_is_played():
    played = set(re.findall(r"lobra study (\w+)", PAGE)) - {"NAME"}
    assert played <= set(STUDIES)
    assert all(f"`{name}`" in PAGE or f"lobra study {name}" in PAGE for name in STUDIES)
