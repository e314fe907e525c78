"""Where the memory goes, as people are told."""

import pytest

import toys
from costmodel.catalogue import cost_model
from costmodel.guard import strict
from costmodel.hardware import cluster_spec, model_spec
from costmodel.memory_report import COLUMNS, account_cells, account_of
from lobra.plan import ReplicaConfig

SEVEN, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
SIX = tuple(toys.tenant(name) for name in "abcdef")


@pytest.mark.parametrize("memory", ["auto", "analytic", "executor"])
def test_the_account_is_at_the_most_tokens_that_fit_on_the_heaviest_stage(memory):
    cost, config = cost_model(SEVEN, CLUSTER, memory=memory), ReplicaConfig(2, 2)
    row = account_of(cost, config, SIX)

    assert row is not None
    assert row.granted == cost.max_tokens(config, SIX)
    assert 0 <= row.breakdown.spare < 0.01
    assert row.tokens >= row.granted
    assert len(account_cells(row)) == len(COLUMNS)


def test_the_papers_table_is_told_beside_what_is_counted():
    row = account_of(cost_model(SEVEN, CLUSTER), ReplicaConfig(1, 1), SIX)
    assert row is not None
    assert account_cells(row)[:3] == ("<1,1>", "0", "2048 (2349 fit)")
    assert account_cells(row)[-1] == "40.00"


def test_wrapped_cost_models_are_looked_into_and_a_profile_has_no_account():
    cost, config = cost_model(SEVEN, CLUSTER), ReplicaConfig(1, 1)
    assert account_of(strict(cost), config, SIX) == account_of(cost, config, SIX)
    assert account_of(toys.ToyCost(), config, SIX) is None


def test_where_not_even_the_weights_fit_there_is_nothing_spare():
    cost = cost_model(model_spec("llama2_70b"), CLUSTER, memory="executor")
    row = account_of(cost, ReplicaConfig(1, 1), SIX)
    assert row is not None
    assert (row.tokens, row.granted) == (0, 0)
    assert row.breakdown.spare < 0
