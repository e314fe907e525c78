"""Laws of bounds: below every dispatch, blind to order, in proportion to the hardware, monotone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.bounds.configuration import configuration_bound
from policies.bounds.fluid import fluid_bound
from policies.bounds.latency import latency_bound
from policies.bounds.level import level_bound
from policies.dispatch.balanced import Balanced
from policies.dispatch.fleet import Fleet
from unit.policies.dispatch.worlds import plain_makespan, random_fleet


def coarse(loads, replicas, counts):
    """The configuration bound on a coarse grid."""
    return configuration_bound(loads, replicas, counts, cells=200, rounds=15)


CLOSED = (fluid_bound, latency_bound, level_bound)
TOLERANCE = 2e-4  # of the rounds in which the level bound ends


@st.composite
def steps(draw):
    """A fleet with several machines of each kind, and counts."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    kinds = random_fleet(random, machines=3, buckets=4, pipelines=draw(st.booleans())).loads
    sizes = [draw(st.integers(1, 3)) for _ in kinds]
    counts = np.array([draw(st.integers(0, 12)) for _ in range(4)])
    return Fleet(kinds, np.repeat(np.arange(3), sizes)), counts


@settings(max_examples=25, deadline=None)
@given(step=steps())
def test_every_bound_is_below_balanced_dispatch_which_loses_nothing_and_fits(step):
    fleet, counts = step

    dealt = Balanced(work=10).balance(fleet, counts)

    assert dealt.sum(axis=0).tolist() == counts.tolist()
    assert fleet.fits[fleet.kind][dealt > 0].all()
    for bound in (*CLOSED, coarse):
        assert bound(fleet.loads, fleet.sizes.tolist(), counts) <= plain_makespan(fleet, dealt) * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(step=steps(), data=st.data())
def test_the_order_of_buckets_and_kinds_is_no_matter(step, data):
    fleet, counts = step
    order, turned = data.draw(st.permutations(range(4))), data.draw(st.permutations(range(3)))
    loads = [
        replace(kind, capacity=kind.capacity[order], fixed=kind.fixed[order], each=kind.each[order])
        for kind in (fleet.loads[number] for number in turned)
    ]
    for bound in CLOSED:
        expected = bound(fleet.loads, fleet.sizes.tolist(), counts)
        assert bound(loads, fleet.sizes[turned].tolist(), counts[order]) == pytest.approx(expected, rel=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(step=steps(), power=st.integers(-8, 8))
def test_slower_hardware_scales_bounds_and_dispatch(step, power):
    fleet, counts = step
    scale = 2.0**power
    scaled = tuple(
        replace(kind, fixed=kind.fixed * scale, each=kind.each * scale, floor=kind.floor * scale)
        for kind in fleet.loads
    )
    for bound in CLOSED:
        expected = bound(fleet.loads, fleet.sizes.tolist(), counts) * scale
        assert bound(scaled, fleet.sizes.tolist(), counts) == pytest.approx(expected, rel=TOLERANCE)
    ours, slower = (plain_makespan(f, Balanced(work=5).balance(f, counts)) for f in (fleet, Fleet(scaled, fleet.kind)))
    assert slower == pytest.approx(ours * scale)


@settings(max_examples=25, deadline=None)
@given(step=steps(), kind=st.integers(0, 2), bucket=st.integers(0, 3))
def test_more_machines_never_raise_a_bound_and_more_sequences_never_lower_it(step, kind, bucket):
    fleet, counts = step
    more_machines, more_work = fleet.sizes.copy(), counts.copy()
    more_machines[kind] += 1
    more_work[bucket] += 2
    for bound in (fluid_bound, latency_bound):
        now = bound(fleet.loads, fleet.sizes.tolist(), counts)
        assert bound(fleet.loads, more_machines.tolist(), counts) <= now * (1 + 1e-7)
        assert bound(fleet.loads, fleet.sizes.tolist(), more_work) >= now * (1 - 1e-7)
    now = level_bound(fleet.loads, fleet.sizes.tolist(), counts)
    assert level_bound(fleet.loads, more_machines.tolist(), counts) <= now * (1 + TOLERANCE)
