"""Sequences into bins: best-fit decreasing and longest processing time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching import bins
from policies.batching.bins import balanced, best_fit, best_fit_runs, by_pairs, by_tenant

descending = st.lists(st.integers(1, 64), min_size=1, max_size=40).map(lambda lengths: sorted(lengths, reverse=True))


def loads_of(placed, lengths):
    return np.bincount(placed, weights=lengths).astype(int).tolist()


def best_fit_one_by_one(lengths, room):
    loads = []
    for length in lengths:
        fitting = [place for place, load in enumerate(loads) if load + length <= room]
        if fitting:
            loads[max(fitting, key=lambda place: loads[place])] += length
        else:
            loads.append(length)
    return loads


@pytest.mark.parametrize("few", [0, 2048], ids=["together", "one by one"])
@given(lengths=descending)
@settings(max_examples=150)
def test_best_fit_fills_bins_as_the_plain_rule_does(few, lengths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bins, "FEW", few)
        placed = best_fit(lengths, 64)

    assert len(lengths) == len(placed)
    assert sorted(best_fit_one_by_one(lengths, 64)) == sorted(loads_of(placed, lengths))


def test_the_fullest_bin_that_holds_a_sequence_takes_it():
    assert best_fit([60, 50, 40, 30], 100) == [0, 1, 0, 1]


@given(lengths=descending)
def test_pairs_put_every_sequence_into_a_bin_that_holds_it(lengths):
    placed = by_pairs(lengths, 64)

    assert len(lengths) == len(placed)
    assert set(range(max(placed) + 1)) == set(placed)
    assert max(loads_of(placed, lengths)) <= 64


def test_pairs_find_the_bin_that_best_fit_opens_too_many():
    lengths = [10, 9, 8, 8, 3, 2]

    assert [20, 20] == loads_of(by_pairs(lengths, 20), lengths)
    assert max(best_fit(lengths, 20)) == 2


@given(lengths=descending, random=st.randoms(use_true_random=False))
def test_bins_of_tenants_hold_every_sequence_once(lengths, random):
    tenants = [random.randint(0, 2) for _ in lengths]

    placed = by_tenant(lengths, tenants, 64)

    assert len(lengths) == len(placed)
    assert set(range(max(placed) + 1)) == set(placed)
    assert max(loads_of(placed, lengths)) <= 64


def test_a_tenant_that_fills_bins_keeps_them_to_itself():
    assert by_tenant([50, 50, 50, 50, 20, 10], [0, 1, 0, 1, 0, 1], 100) == [0, 1, 0, 1, 2, 2]


def test_pairs_often_save_a_bin_of_a_few_realistic_sequences_each():
    found = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        lengths = np.sort(np.clip(generator.lognormal(6.5, 0.7, 80), 50, 2048).astype(int))[::-1]
        fewest = -(-int(lengths.sum()) // 2048)
        found.append((max(best_fit(lengths, 2048)) + 1 - fewest, max(by_pairs(lengths.tolist(), 2048)) + 1 - fewest))

    over_best_fit, over_pairs = np.sum(found, axis=0).tolist()
    assert over_pairs < over_best_fit


def test_equal_lengths_share_bins_until_they_are_full():
    assert best_fit([30] * 5, 100) == [0, 0, 0, 1, 1]
    assert np.bincount(best_fit([25] * 6, 100)).tolist() == [4, 2]


def test_a_hundred_thousand_sequences_waste_almost_no_bin():
    generator = np.random.default_rng(3)
    lengths = np.clip(generator.lognormal(6.0, 1.2, 100_000), 16, 2048).astype(int)
    lengths = np.sort(lengths)[::-1].tolist()

    loads = loads_of(best_fit(lengths, 2048), lengths)

    assert max(loads) <= 2048
    assert len(loads) <= -(-sum(lengths) // 2048) * 1.001 + 1


def test_balanced_bins_cost_about_the_same():
    assert loads_of(balanced([5, 3, 3, 2, 1], [5.0, 3.0, 3.0, 2.0, 1.0], 2, 10), [5, 3, 3, 2, 1]) == [7, 7]


def test_balancing_gives_up_where_the_sequences_do_not_fit():
    assert balanced([6, 6, 6], [6.0, 6.0, 6.0], 2, 10) is None


@given(descending, st.integers(1, 12))
def test_balanced_bins_never_hold_more_than_their_room(lengths, number):
    placed = balanced(lengths, [float(length) for length in lengths], number, 64)

    assert placed is None or (len(placed) == len(lengths) and max(loads_of(placed, lengths)) <= 64)


@given(descending, st.integers(1, 8))
def test_the_costliest_bin_exceeds_the_mean_by_less_than_one_sequence(lengths, number):
    placed = balanced(lengths, [float(length) for length in lengths], number, 10**9)

    assert max(loads_of(placed, lengths)) <= sum(lengths) / number + max(lengths)


def test_both_ways_to_place_agree_on_thousands_of_sequences():
    lengths = np.sort(np.random.default_rng(1).integers(1, 900, 2048))[::-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bins, "FEW", 0)
        together = best_fit(lengths, 1000)

    assert sorted(loads_of(together, lengths)) == sorted(loads_of(best_fit(lengths, 1000), lengths))


def whole_tiles(placed, lengths, tenants, multiple):
    tokens = {}
    for place, length, tenant in zip(placed, lengths, tenants, strict=True):
        tokens.setdefault(place, {}).setdefault(tenant, []).append(length)
    return [sum(-(-sum(of) // multiple) * multiple for of in tokens[place].values()) for place in sorted(tokens)]


@given(descending, st.integers(1, 16), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_bins_with_whole_tiles_for_every_tenant_never_exceed_their_room(lengths, multiple, seed):
    tenants = np.random.default_rng(seed).integers(0, 3, len(lengths))

    placed = best_fit_runs(lengths, tenants, 64, multiple)

    sizes = np.bincount(placed)
    for tokens, count in zip(whole_tiles(placed, lengths, tenants.tolist(), multiple), sizes, strict=True):
        assert tokens <= 64 or count == 1


def test_tiles_of_one_token_are_no_matter():
    lengths = np.sort(np.random.default_rng(2).integers(1, 60, 80))[::-1].tolist()
    tenants = np.arange(80) % 3

    assert sorted(best_fit_one_by_one(lengths, 64)) == sorted(loads_of(best_fit_runs(lengths, tenants, 64, 1), lengths))


def test_a_tenants_sequences_share_their_last_tile():
    same, other = best_fit_runs([5, 5], np.array([0, 0]), 16, 10), best_fit_runs([5, 5], np.array([0, 1]), 16, 10)

    assert (same, other) == ([0, 0], [0, 1])
