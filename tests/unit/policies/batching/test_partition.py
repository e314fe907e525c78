"""The exact choice of bucket boundaries against slow and plain oracles."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.partition import choose_boundaries


def computed_tokens(boundaries, candidates, counts):
    return sum(
        count * min(end for end in boundaries if end >= width) for width, count in zip(candidates, counts, strict=True)
    )


def fewest_by_trying_all(candidates, counts, number):
    choices = (
        (*inner, candidates[-1])
        for size in range(min(number, len(candidates)))
        for inner in combinations(candidates[:-1], size)
    )
    return min(computed_tokens(choice, candidates, counts) for choice in choices)


def fewest_by_quadratic_programme(candidates, counts, number):
    cumulated = [0, *np.cumsum(counts).tolist()]
    best = [width * below for width, below in zip([0, *candidates], cumulated, strict=True)]
    for _ in range(number - 1):
        best = [0] + [
            min(best[k] + candidates[i - 1] * (cumulated[i] - cumulated[k]) for k in range(i))
            for i in range(1, len(best))
        ]
    return best[-1]


histograms = st.dictionaries(st.integers(1, 200), st.integers(1, 50), min_size=1, max_size=9).map(
    lambda counts: (sorted(counts), [counts[width] for width in sorted(counts)])
)
large_histograms = st.integers(0, 2**32 - 1).map(
    lambda seed: (
        np.unique(np.random.default_rng(seed).integers(1, 3000, 150)).tolist(),
        np.random.default_rng(seed).zipf(1.6, 150).clip(1, 500).tolist(),
    )
)


@given(histograms, st.integers(1, 6))
@settings(max_examples=150)
def test_no_choice_of_boundaries_computes_fewer_tokens(histogram, number):
    candidates, counts = histogram

    chosen = choose_boundaries(np.array(candidates), np.array(counts), number).tolist()

    assert fewest_by_trying_all(candidates, counts, number) == computed_tokens(chosen, candidates, counts)
    assert len(chosen) <= number
    assert candidates[-1] == chosen[-1]
    assert sorted(set(chosen)) == chosen


@given(large_histograms, st.integers(1, 20))
@settings(max_examples=15)
def test_hulls_find_what_the_quadratic_programme_finds(histogram, number):
    candidates = histogram[0]
    counts = histogram[1][: len(candidates)]

    chosen = choose_boundaries(np.array(candidates), np.array(counts), number).tolist()

    assert fewest_by_quadratic_programme(candidates, counts, number) == computed_tokens(chosen, candidates, counts)


def test_with_a_boundary_for_every_candidate_each_is_its_own():
    candidates = np.array([16, 48, 64])

    assert candidates.tolist() == choose_boundaries(candidates, np.array([5, 1, 2]), 8).tolist()


def test_one_boundary_is_the_widest_candidate():
    assert choose_boundaries(np.array([16, 48, 64]), np.array([5, 1, 2]), 1).tolist() == [64]


def test_probabilities_serve_as_well_as_counts():
    candidates, counts = np.array([16, 48, 64, 800]), np.array([50, 10, 20, 20])

    assert choose_boundaries(candidates, counts, 2).tolist() == choose_boundaries(candidates, counts / 100, 2).tolist()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 64, 65])
def test_any_number_of_candidates_is_cut(count):
    candidates, counts = np.arange(1, count + 1) * 16, np.arange(count) % 5 + 1

    chosen = choose_boundaries(candidates, counts, 3).tolist()

    assert fewest_by_quadratic_programme(candidates.tolist(), counts.tolist(), 3) == computed_tokens(
        chosen, candidates.tolist(), counts.tolist()
    )


def test_blocks_and_windows_do_not_change_the_optimum():
    random = np.random.default_rng(5)
    candidates = np.unique(random.integers(1, 40_000, 900)) * 16
    counts = random.zipf(1.5, len(candidates)).clip(1, 300)

    chosen = choose_boundaries(candidates, counts, 6).tolist()

    assert fewest_by_quadratic_programme(candidates.tolist(), counts.tolist(), 6) == computed_tokens(
        chosen, candidates.tolist(), counts.tolist()
    )


def fewest_with_forced(candidates, counts, number, forced):
    choices = (
        tuple(sorted({*inner, *forced, candidates[-1]}))
        for size in range(len(candidates))
        for inner in combinations(candidates[:-1], size)
    )
    return min(computed_tokens(choice, candidates, counts) for choice in choices if len(choice) <= number)


@given(histograms, st.integers(1, 6), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_forced_boundaries_are_there_and_the_others_are_the_best_beside_them(histogram, number, random):
    candidates, counts = histogram
    forced = sorted(random.sample(candidates, min(len(candidates), random.randint(0, number - 1))))

    chosen = choose_boundaries(np.array(candidates), np.array(counts), number, forced=np.array(forced)).tolist()

    assert set(forced) <= set(chosen)
    assert len(chosen) <= number
    assert fewest_with_forced(candidates, counts, number, forced) == computed_tokens(chosen, candidates, counts)


def test_many_candidates_keep_their_forced_boundaries():
    candidates, forced = np.arange(1, 700), np.array([100, 101, 350, 600])

    chosen = choose_boundaries(candidates, np.ones(699), 9, forced=forced).tolist()

    assert {100, 101, 350, 600, 699} <= set(chosen)
    assert len(chosen) == 9


def test_more_forced_boundaries_than_buckets_are_refused():
    with pytest.raises(ValueError, match="more than 2"):
        choose_boundaries(np.array([1, 2, 3]), np.ones(3), 2, forced=np.array([1, 2]))


@given(histograms, st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_prices_take_the_place_of_tokens(histogram, number, seed):
    candidates, counts = histogram
    prices = np.sort(np.random.default_rng(seed).integers(0, 40, len(candidates)))
    price = dict(zip(candidates, prices.tolist(), strict=True))

    def total(boundaries):
        return sum(
            count * price[min(end for end in boundaries if end >= width)]
            for width, count in zip(candidates, counts, strict=True)
        )

    chosen = choose_boundaries(np.array(candidates), np.array(counts), number, prices=prices).tolist()

    every = (
        (*inner, candidates[-1])
        for size in range(min(number, len(candidates)))
        for inner in combinations(candidates[:-1], size)
    )
    assert min(map(total, every)) == total(chosen)


@given(large_histograms, st.integers(2, 12))
@settings(max_examples=15)
def test_among_equal_choices_the_widest_last_bucket_wins(histogram, number):
    candidates = np.array(histogram[0][:60])
    counts = np.ones(len(candidates))  # many ties

    chosen = choose_boundaries(candidates, counts, number).tolist()

    last = [end for end in chosen if end < candidates[-1]]
    fewest = computed_tokens(chosen, candidates, counts)
    for end in candidates[candidates < (last[-1] if last else 0)].tolist():
        below = candidates <= end
        before = choose_boundaries(candidates[below], counts[below], len(chosen) - 1).tolist()
        assert computed_tokens([*before, candidates[-1]], candidates, counts) > fewest
