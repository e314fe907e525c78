"""The fluid: a bound, and a flow that adds up."""

import numpy as np
import pytest

from lobra.errors import Infeasible
from policies.bounds.fluid import fluid, fluid_bound, least_each
from policies.bounds.latency import latency_bound
from unit.policies.dispatch.worlds import loads, plain_seconds


def test_two_equal_machines_halve_the_work():
    kind = loads([4], [1.0], [0.5])  # a full micro-batch of 4 takes 3: 0.75 a sequence

    assert fluid_bound([kind], [2], np.array([16])) == pytest.approx(16 * 0.75 / 2, rel=1e-6)


def test_the_flow_adds_up_and_goes_where_it_fits():
    small, large = loads([4, 0], [0.1, 0.1], [0.5, 2.0]), loads([8, 4], [0.1, 0.1], [0.2, 0.4])

    seconds, flow = fluid([small, large], [3, 1], np.array([40, 7]))

    assert flow.sum(axis=0) == pytest.approx([40, 7])
    assert flow[0, 1] == 0
    assert seconds == pytest.approx(max(flow[0, 0] * 0.525 / 3, flow[1] @ [0.2125, 0.425]), rel=1e-6)


def test_bubbles_load_a_kind_before_it_begins():
    kind = loads([1], [0.0], [1.0])

    seconds, flow = fluid([kind, kind], [1, 1], np.array([10]), np.array([0.0, 4.0]))

    assert (seconds, flow.tolist()) == (pytest.approx(7), [[pytest.approx(7)], [pytest.approx(3)]])


def test_a_kind_without_machines_gets_nothing():
    assert fluid_bound([loads([1], [0], [1.0]), loads([1], [0], [0.1])], [2, 0], np.array([10])) == pytest.approx(5)


def test_nothing_to_do_takes_no_time():
    assert fluid_bound([loads([4], [1.0], [0.5])], [2], np.array([0])) == 0


def test_a_bucket_that_fits_no_kind_is_infeasible():
    with pytest.raises(Infeasible, match="some sequences fit no replica"):
        fluid_bound([loads([4, 0], [1, 1], [1, 1])], [2], np.array([3, 1]))


@pytest.mark.parametrize("fixed", [-0.4, -0.05, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("floor", [0.0, 0.5, 1.4, 9.0])
def test_the_least_price_of_a_sequence_is_below_every_share_of_a_micro_batch(fixed, floor):
    """Fits may make the fixed part slightly negative: then the largest micro-batch is not the cheapest one."""
    kind = loads([7], [fixed], [0.6], floor)

    shares = [max(floor, fixed + 0.6 * size) / size for size in range(1, 8)]

    assert least_each(kind) == pytest.approx([min(shares)])


def test_the_latency_bound_is_the_most_awkward_sequence_on_its_best_kind():
    small, large = loads([4, 0], [1, 1], [1, 1]), loads([9, 9], [1, 1], [0.5, 5], 0.0, 3)

    bound = latency_bound([small, large], [1, 1], np.array([3, 1]))

    assert bound == pytest.approx(plain_seconds(large, [0, 1])) == pytest.approx(18)
