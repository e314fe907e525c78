"""Packing: length classes, their prices, and rows up to the budget."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from lobra.errors import BadInput, Infeasible
from lobra.plan import Replica, ReplicaConfig
from policies.batching.pack_prices import PackPrices
from policies.batching.packed import Packed
from policies.batching.packing import pack
from policies.evaluate import count_seconds, work_seconds

PLAN = toys.plan((1, 1, 2), (2, 1, 1))  # budgets 1024 and 2048
COST = toys.ToyCost()
REPLICA = PLAN.replicas[0]


@dataclass(frozen=True)
class PaddedOnly(toys.ToyCost):
    def rates(self, config, widths, shards=1):
        return replace(toys.ToyCost.rates(self, config, widths, shards), pack=None)


def share(*lengths, tenants=None, plan=PLAN):
    return Packed().bucket(toys.batch(*lengths, tenants=tenants), plan, COST)


def lengths_of(work):
    return [[sequence.length for sequence in row] for m in work for row in m.rows]


def lognormal(count, seed=0, longest=1024):
    generator = np.random.default_rng(seed)
    return np.clip(generator.lognormal(5.5, 1.0, count), 16, longest).astype(int).tolist()


def test_length_classes_end_at_multiples_of_the_step_and_at_budgets():
    plan = replace(PLAN, replicas=(replace(REPLICA, budget=1000), PLAN.replicas[2]))

    assert [(bucket.width, bucket.count) for bucket in share(256, 1, 1000, 1001, 1990, plan=plan)] == [
        (256, 2),
        (1000, 1),
        (1024, 1),
        (2048, 1),
    ]


def test_an_empty_batch_has_no_class_and_an_empty_share_no_work():
    assert share() == ()
    assert Packed().form((), REPLICA, COST) == ()


def test_a_row_takes_what_its_budget_holds_without_padding():
    work = Packed().form(share(600, 500, 400, 300, 200), REPLICA, COST)

    assert [m.width for m in work] == [1000, 1000]
    assert [m.shape.tokens - m.shape.useful for m in work] == [0, 0]


def test_sequences_of_a_row_are_ordered_by_tenant_then_index():
    (row,) = Packed().form(share(100, 200, 300, 50, tenants=[1, 0, 1, 0]), REPLICA, COST)

    assert [(sequence.tenant, sequence.index) for sequence in row.rows[0]] == [(0, 1), (0, 3), (1, 0), (1, 2)]


def test_the_costliest_row_comes_first():
    work = Packed().form(share(1024, 512, 512, 300), REPLICA, COST)

    assert lengths_of(work) == [[1024], [512, 512], [300]]


def test_a_group_packs_up_to_its_members_budgets_together():
    (pack,) = Packed().form(share(1500, 500), REPLICA, COST, group=(0, 1))

    assert (pack.group, pack.width) == ((0, 1), 2000)


def test_a_sequence_longer_than_the_budget_is_refused():
    with pytest.raises(Infeasible, match=r"tenant 2 .* needs 1500 tokens, .* holds 1024"):
        Packed().form(share(100, 1500, tenants=[0, 2]), REPLICA, COST)


def test_a_class_above_the_budget_has_no_capacity():
    loads = Packed().loads(share(100, 1500), REPLICA, COST)

    assert (loads.capacity == 0).tolist() == [False, True]


def test_widths_can_be_rounded_up_for_kernels_with_tiles_but_not_beyond_the_budget():
    rounded = Packed(round_to=128).form(share(100, 50), REPLICA, COST)
    full = Packed(round_to=1000).form(share(1010), REPLICA, COST)

    assert [m.width for m in rounded] == [256]
    assert [m.width for m in full] == [1024]


@pytest.mark.parametrize(("align", "width"), [("row", 256), ("run", 384), ("sequence", 512)])
def test_rows_runs_or_sequences_are_rounded_up_to_whole_tiles(align, width):
    taken = share(30, 40, 100, 60, tenants=[0, 0, 1, 1])

    (pack,) = Packed(round_to=128, align=align).form(taken, REPLICA, COST)

    assert (pack.width, pack.shape.useful) == (width, 230)


def rounded_tokens(row, align, multiple, room):
    if align == "row":
        tokens = [sum(sequence.length for sequence in row)]
    elif align == "run":
        owners = sorted({sequence.tenant for sequence in row})
        tokens = [sum(s.length for s in row if s.tenant == owner) for owner in owners]
    else:
        tokens = [sequence.length for sequence in row]
    return min(room, sum(-(-part // multiple) * multiple for part in tokens))


@pytest.mark.parametrize("align", ["row", "run", "sequence"])
@pytest.mark.parametrize("stages", [1, 4])
@given(
    lengths=st.lists(st.integers(1, 1024), min_size=1, max_size=40),
    multiple=st.sampled_from([1, 64, 100, 128]),
    floor=st.sampled_from([0.0, 0.7]),
)
@settings(max_examples=40, deadline=None)
def test_rounded_rows_hold_every_sequence_once_within_the_budget(align, stages, lengths, multiple, floor):
    batching, cost = Packed(round_to=multiple, align=align), replace(COST, floor=floor)
    replica = Replica(ReplicaConfig(1, stages), tuple(range(stages)), 1024)
    taken = share(*lengths, tenants=np.arange(len(lengths)) % 3)

    work = batching.form(taken, replica, cost)

    assert sorted(lengths) == sorted(sequence.length for m in work for row in m.rows for sequence in row)
    for m in work:
        (row,) = m.rows
        assert m.width <= replica.budget
        assert rounded_tokens(row, align, multiple, replica.budget) == m.width


@pytest.mark.parametrize(("align", "error"), [("row", 0.06), ("sequence", 0.04), ("run", 0.15)])
def test_the_loads_foresee_what_rounding_costs_roughly_where_tenants_share_tiles(align, error):
    batching = Packed(round_to=128, align=align)
    taken = share(*lognormal(600), tenants=np.arange(600) % 4)

    expected = count_seconds(batching.loads(taken, REPLICA, COST), np.array([bucket.count for bucket in taken]))

    packed = work_seconds(batching.form(taken, REPLICA, COST), REPLICA, COST)
    assert packed == pytest.approx(float(expected), rel=error)
    assert packed > work_seconds(Packed().form(taken, REPLICA, COST), REPLICA, COST)


def test_a_short_sequence_pays_its_share_of_the_fixed_part_and_a_long_one_the_whole():
    cost = toys.ToyCost(layers=1, floor=0.0, fixed=1.0, token=0.01, square=1e-5)

    loads = Packed(fill=0.8).loads(share(100, 200, 600), REPLICA, cost)

    short = 1e-3 * np.array([1.0 + 0.1, 2.0 + 0.4]) + 1e-3 * np.array([100, 200]) / (0.8 * 1024)
    assert loads.each == pytest.approx([short.mean(), 1e-3 * (1.0 + 6.0 + 3.6)], rel=1e-12)
    assert (loads.fixed.tolist(), loads.floor) == ([0.0, 0.0], 0.0)


def test_adapter_runs_are_counted_where_they_cost_something():
    buckets = share(*[100] * 40, tenants=[0, 1] * 20)
    one, two = toys.ToyCost(fixed=2.0), toys.ToyCost(fixed=1.0, run=0.5)  # a full pack has two tenants: the same price

    assert Packed().loads(buckets, REPLICA, two).each == pytest.approx(Packed().loads(buckets, REPLICA, one).each, 1e-2)


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_the_loads_of_many_sequences_come_close_to_their_packs(stages):
    replica = Replica(ReplicaConfig(1, stages), tuple(range(stages)), 2048)
    buckets = share(*lognormal(800), plan=toys.plan((1, 1, 1), budget=2048))

    expected = count_seconds(Packed().loads(buckets, replica, COST), np.array([bucket.count for bucket in buckets]))

    assert work_seconds(Packed().form(buckets, replica, COST), replica, COST) == pytest.approx(
        float(expected), rel=0.02
    )


@pytest.mark.parametrize("seed", range(6))
def test_what_a_sequence_adds_at_the_least_is_below_any_packing_of_it(seed):
    cost = replace(COST, floor=[0.0, 0.4][seed % 2])
    taken = share(*lognormal(40 + 60 * seed, seed))
    loads = Packed().loads(taken, REPLICA, cost)

    least = float(sum(bucket.count * price for bucket, price in zip(taken, loads.least, strict=True)))

    assert 0 < least <= work_seconds(Packed().form(taken, REPLICA, cost), REPLICA, cost)
    assert np.all(loads.least <= loads.each)


def test_full_packs_cost_exactly_the_least():
    taken = share(*[256] * 8)
    loads = Packed().loads(taken, REPLICA, replace(COST, floor=0.0))

    work = Packed().form(taken, REPLICA, replace(COST, floor=0.0))

    assert [m.width for m in work] == [1024, 1024]
    assert work_seconds(work, REPLICA, replace(COST, floor=0.0)) == pytest.approx(8 * loads.least[0])


def test_a_full_pack_never_costs_less_than_the_floor():
    cost = toys.ToyCost(floor=100.0)
    buckets = share(*[128] * 64)

    expected = count_seconds(Packed(fill=1.0).loads(buckets, REPLICA, cost), np.array([64]))

    assert float(expected) == pytest.approx(
        work_seconds(Packed().form(buckets, REPLICA, cost), REPLICA, cost), rel=1e-9
    )


def test_a_pipeline_gets_more_and_smaller_microbatches_where_its_bubble_would_be_long():
    replica = Replica(ReplicaConfig(1, 4), (0, 1, 2, 3), 1024)
    buckets = share(*[128] * 8)

    whole = Packed(splits=(1,)).form(buckets, replica, COST)
    small = Packed().form(buckets, replica, COST)

    assert (len(whole), len(small)) == (1, 4)
    assert work_seconds(small, replica, COST) < 0.7 * work_seconds(whole, replica, COST)


def test_bins_are_evened_out_where_one_would_lie_below_the_floor():
    cost = toys.ToyCost(floor=0.7, fixed=0.2)
    work = Packed().form(share(*[256] * 5), REPLICA, cost)

    assert [m.width for m in work] == [768, 512]


def test_a_cost_form_without_prices_for_packs_is_refused():
    with pytest.raises(BadInput, match="no price for packs on <1,1>"):
        Packed().form(share(100), REPLICA, PaddedOnly())
    with pytest.raises(BadInput, match="no price for packs on <1,1>"):
        Packed().loads(share(100), REPLICA, PaddedOnly())


@pytest.mark.parametrize(
    ("knobs", "field"),
    [
        ({"class_step": 0}, "class_step"),
        ({"round_to": 0}, "round_to"),
        ({"fill": 0.0}, "fill"),
        ({"fill": 1.5}, "fill"),
        ({"splits": ()}, "splits"),
        ({"splits": (2, 4)}, "splits"),
        ({"splits": (1, 4, 2)}, "splits"),
        ({"align": "tile"}, "align"),
    ],
)
def test_knobs_out_of_range_are_refused_by_name(knobs, field):
    with pytest.raises(BadInput, match=field):
        Packed(**knobs)


def prices(**named):
    return PackPrices(**{"floor": 0.0, "fixed": 1.0, "run": 0.0, "token": 0.01, "square": 0.0, "stages": 1} | named)


def test_no_bin_is_left_that_pairs_would_save():
    lengths = np.array([10, 9, 8, 8, 3, 2])

    packed = pack(lengths, np.zeros(6, dtype=int), prices(room=20, round_to=1), (1,))

    assert packed.total == pytest.approx(2 * 1.0 + 0.01 * 40)


def test_tenants_keep_to_their_packs_where_adapter_runs_are_dear_and_not_where_they_are_free():
    lengths, tenants = np.array([60, 55, 45, 40]), np.array([0, 1, 1, 0])
    runs = []
    for run in (0.0, 2.0):
        packed = pack(lengths, tenants, prices(run=run, room=105, round_to=1), (1,))
        runs.append(len(set(zip(packed.place.tolist(), tenants.tolist(), strict=True))))

    assert runs == [4, 2]
