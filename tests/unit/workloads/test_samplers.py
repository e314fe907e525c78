"""How batches are drawn: independently, or with the data set's own proportions."""

from collections import Counter

import numpy as np
import pytest

from lobra.errors import BadInput
from workloads.lengths import Beta, Empirical, Outliers, WithOutliers
from workloads.samplers import bin_ends, check_sampler, draw, walk
from workloads.table import tabulate

TABLE = tabulate(WithOutliers(Beta(1.4, 4.7, 20, 900), Outliers(0.013, 1000, 4000)), "x")


def bins(lengths: np.ndarray) -> np.ndarray:
    """Exponent of the next power of two, by Python's own arithmetic."""
    return np.array([(int(length) - 1).bit_length() for length in lengths])


def test_bins_end_at_powers_of_two():
    assert bin_ends(1).tolist() == [1]
    assert bin_ends(2).tolist() == [1, 2]
    assert bin_ends(5).tolist() == [1, 2, 4, 8]
    assert bin_ends(8).tolist() == [1, 2, 4, 8]


def test_every_stratified_batch_carries_the_proportions_of_the_data_set():
    shares = np.bincount(bins(TABLE.lengths), weights=TABLE.probabilities)

    for step in range(30):
        lengths = draw(TABLE, np.random.default_rng(step), 100, "stratified")
        counts = np.bincount(bins(lengths), minlength=len(shares))

        assert counts.sum() == 100
        assert np.all(np.abs(counts - 100 * shares) < 1)


def test_a_rare_bin_comes_in_its_fraction_of_the_batches():
    long = [(draw(TABLE, np.random.default_rng(step), 20, "stratified") > 900).sum() for step in range(2000)]

    assert set(long) == {0, 1}
    assert np.mean(long) == pytest.approx(20 * 0.013, rel=0.1)


def test_stratified_lengths_have_the_same_law_in_the_long_run():
    lengths = np.concatenate([draw(TABLE, np.random.default_rng(step), 64, "stratified") for step in range(2000)])
    points = np.array([30, 64, 100, 200, 256, 400, 800, 1500, 4000])

    np.testing.assert_allclose([(lengths <= p).mean() for p in points], TABLE.at_most(points), atol=0.005)


def test_stratified_batches_vary_less_than_independent_ones():
    totals = {
        sampler: np.std([draw(TABLE, np.random.default_rng(step), 100, sampler).sum() for step in range(200)])
        for sampler in ("iid", "stratified")
    }

    assert totals["stratified"] < 0.6 * totals["iid"]


def test_stratified_lengths_do_not_come_sorted():
    lengths = draw(TABLE, np.random.default_rng(0), 100, "stratified")

    assert abs(np.corrcoef(np.arange(100), lengths)[0, 1]) < 0.3


def test_a_table_of_one_length_can_be_stratified():
    assert (
        draw(tabulate(Empirical((0, 1), (64, 64)), "x"), np.random.default_rng(0), 3, "stratified").tolist() == [64] * 3
    )


@pytest.mark.parametrize("sampler", ["iid", "stratified"])
def test_a_walk_visits_every_row_once(sampler):
    lengths = np.array([64, 64, 128, 256, 3, 5000, 64])

    assert Counter(walk(lengths, np.random.default_rng(0), sampler).tolist()) == Counter(range(7))


def test_every_window_of_a_stratified_walk_carries_the_proportions_of_the_rows():
    lengths = np.repeat([30, 60, 300, 2000], [500, 300, 150, 50])
    order = walk(lengths, np.random.default_rng(0), "stratified")

    for window in order.reshape(10, 100):
        counts = np.bincount(bins(lengths[window]), minlength=12)[[5, 6, 9, 11]]
        assert np.all(np.abs(counts - np.array([50, 30, 15, 5])) <= 1)


def test_an_unknown_sampler_is_answered_with_the_nearest():
    with pytest.raises(BadInput, match="sampler is 'stratifed'; did you mean stratified"):
        check_sampler("stratifed")
