"""From a fluid to whole sequences."""

import numpy as np

from policies.dispatch.fleet import Fleet
from policies.dispatch.rounding import round_flow, spread
from unit.policies.dispatch.worlds import loads


def test_the_largest_remainder_is_rounded_up():
    whole = round_flow(np.array([[2.3], [4.6], [1.1]]), np.array([8]), np.ones((3, 1), bool))

    assert whole.tolist() == [[2], [5], [1]]


def test_rounding_never_goes_where_nothing_fits():
    fits = np.array([[True, False], [True, True]])

    whole = round_flow(np.array([[1.5, 0.0], [1.5, 2.0]]), np.array([3, 2]), fits)

    assert whole.tolist() == [[2, 0], [1, 2]]


def test_a_solver_that_flows_a_little_too_much_is_corrected():
    whole = round_flow(np.array([[3.0], [2.0]]), np.array([4]), np.ones((2, 1), bool))

    assert whole.tolist() == [[2], [2]]


def test_machines_share_whole_micro_batches_and_the_least_loaded_takes_the_rest():
    fleet = Fleet((loads([4, 4], [1, 1], [0.1, 1.0]),), np.zeros(3, int))

    counts = spread(fleet, np.array([[17, 2]]))

    assert counts.tolist() == [[4, 2], [8, 0], [5, 0]]  # the two long ones first, then chunks of the short ones


def test_less_than_a_micro_batch_each_can_be_shared_out_thinly():
    fleet = Fleet((loads([4], [1], [0.1]),), np.zeros(3, int))

    assert spread(fleet, np.array([[6]])).ravel().tolist() == [4, 2, 0]
    assert spread(fleet, np.array([[6]]), thin=True).ravel().tolist() == [2, 2, 2]


def test_where_company_saves_nothing_sequences_are_dealt_one_by_one():
    fleet = Fleet((loads([1 << 31, 1 << 31], [0, 0], [1.0, 3.0]),), np.zeros(2, int))

    assert spread(fleet, np.array([[5, 1]])).tolist() == [[2, 1], [3, 0]]
