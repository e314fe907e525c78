"""Parts of questions by hand: the frontier, promises, longer sequences, the first plan of a fleet that never moves."""

import numpy as np
import pytest

from capacity_worlds import arrival, oracle
from experiments.capacity.deciding import Decider
from experiments.whatif.answer import Figure
from experiments.whatif.frontier import pareto
from experiments.whatif.min_gpus import Searched
from experiments.whatif.scoring import decided
from experiments.whatif.varied import longer
from lobra.batch import Array
from workloads.sources import Endless, Rows
from workloads.table import LengthTable


def test_the_frontier_is_what_nothing_beats_in_both():
    assert pareto([(1, 9), (2, 5), (3, 6), (4, 1), (4, 1), (2, 7)]) == [True, True, False, True, True, False]


@pytest.mark.parametrize(
    ("low", "high", "kept"),
    [(1.0, 2.0, True), (4.0, 5.0, False), (2.0, 4.0, None), (2.0, None, None), (4.0, None, False)],
)
def test_a_promise_is_kept_or_broken_only_where_the_whole_interval_says_so(low, high, kept):
    assert decided(Figure("finish p95", 3.0, "s", low, high), 3.0).kept is kept


def test_nothing_tried_is_infeasible():
    assert Searched(None, ()).verdict == "infeasible"
    assert Searched(None, ()).smallest is None


def mean(known: tuple[Array, Array]) -> float:
    lengths, shares = known
    return float(lengths @ shares)


def test_longer_sequences_are_longer_on_average_by_the_factor():
    law = Endless(LengthTable(np.linspace(0.001, 1, 1000), bounded=True))
    rows = Rows(np.array([100, 200, 300]), np.array([50, 100, 300]))

    assert mean(longer(law, 1.5).known()) == pytest.approx(1.5 * mean(law.known()), rel=2e-3)
    assert mean(longer(law, 0.5).known()) == pytest.approx(0.5 * mean(law.known()), rel=5e-3)
    assert longer(rows, 1.5).lengths.tolist() == [150, 300, 450]
    assert longer(rows, 1.5).labels.tolist() == [75, 150, 450]


def test_a_fleet_that_never_moves_begins_with_the_plan_of_the_whole_team():
    team = oracle(arrival("short-0", "short", 0.0), arrival("long-0", "long", 9.0))
    everybody = team.kinds(("short-0", "long-0"))
    decider = Decider(team, "never", lambda *_: 0.0, first=everybody)

    first = decider(0.0, None, ("short-0",), "change").plan
    later = decider(9.0, first, ("long-0", "short-0"), "change")

    assert [each.gpus for each in first.replicas] == [each.gpus for each in team.plan(everybody).replicas]
    assert [each.name for each in first.tenants] == ["short-0"]
    assert not later.moved
