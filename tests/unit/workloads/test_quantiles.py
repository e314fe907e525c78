"""Shipped quantile tables: made by one call from the counts, near the counts, never the counts."""

from importlib.resources import files

import numpy as np
import pytest
from scipy import stats

from lobra.errors import BadInput
from workloads.counts import read_counts
from workloads.quantiles import (
    POINTS,
    quantile_table,
    shipped_sources,
    shipped_table,
    table_probabilities,
    tables_csv,
    write_tables,
)
from workloads.table import tabulate

NAMES = tuple(shipped_sources())


def test_the_shipped_file_is_made_by_one_call(reference_data, tmp_path):
    write_tables(reference_data / "workloads" / "lengths", tmp_path / "quantiles.csv")

    assert (tmp_path / "quantiles.csv").read_bytes() == files("workloads").joinpath("data/quantiles.csv").read_bytes()
    assert tables_csv(reference_data / "workloads" / "lengths") == (tmp_path / "quantiles.csv").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_table_has_the_moments_of_its_rows(name, reference_data):
    source = shipped_sources()[name]
    rows = read_counts(reference_data / "workloads" / "lengths" / source["counts"], name)
    moments = tabulate(shipped_table(name), name).moments()

    assert len(rows) == source["samples"]
    assert moments.mean == pytest.approx(rows.mean(), rel=0.003)
    assert moments.deviation == pytest.approx(rows.std(), rel=0.02)
    assert moments.skewness == pytest.approx(stats.skew(rows), abs=0.12)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_table_is_201_quantiles_with_its_attribution(name):
    law = shipped_table(name)

    assert len(law.quantiles) == POINTS == 201
    assert law.probabilities == tuple(table_probabilities().tolist())
    assert shipped_sources()[name].keys() == {"counts", "samples", "tokenizer", "source", "licence"}


def test_a_quantile_table_runs_from_the_shortest_to_the_longest():
    table = quantile_table(np.array([300, 100, 200]))

    assert (table[0], table[100], table[200]) == (100, 200, 300)
    assert np.all(np.diff(table) >= 0)


def test_an_unknown_table_is_answered_with_the_nearest():
    with pytest.raises(BadInput, match="no length table 'gsm8'; did you mean gsm8k"):
        shipped_table("gsm8")
