"""Laws of workloads, for any lengths, seeds, limits and tenants."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lobra.spec import Tenant
from workloads.lengths import Beta, Empirical, LengthFamily, Outliers, ShiftedGamma, ShiftedLogNormal, WithOutliers
from workloads.overlong import admit, admitted_histogram
from workloads.sampled import SampledWorkload
from workloads.samplers import bin_ends, draw, walk
from workloads.scaling import apportion
from workloads.sources import Drawn, Endless, Rows
from workloads.table import tabulate

FEW = settings(max_examples=40, deadline=None)

tokens = st.integers(1, 3000)
samplers = st.sampled_from(["iid", "stratified"])
policies = st.sampled_from(["truncate", "drop"])
names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,10}", fullmatch=True)
shifts = st.floats(0, 100)
quantiles = st.lists(st.floats(0, 3000), min_size=2, max_size=12).map(lambda values: tuple(sorted(values)))
bulks: st.SearchStrategy[LengthFamily] = st.one_of(
    st.builds(ShiftedLogNormal, shifts, st.floats(0, 5), st.floats(0.1, 0.8)),
    st.builds(ShiftedLogNormal, shifts, st.floats(0, 5), st.floats(0.1, 2), st.floats(800, 3000)),
    st.builds(ShiftedGamma, shifts, st.floats(0.3, 20), st.floats(1, 300)),
    st.builds(Beta, st.floats(0.2, 9), st.floats(0.2, 9), shifts, st.floats(101, 3000)),
    quantiles.map(lambda values: Empirical(tuple(np.linspace(0, 1, len(values)).tolist()), values)),
)
outliers = st.builds(Outliers, st.floats(0, 1), shifts, st.floats(101, 4000))
families = st.one_of(bulks, st.builds(WithOutliers, bulks, outliers))
rows = st.lists(tokens, min_size=4, max_size=40).map(lambda values: Rows(np.array(values), np.array(values)))
sources = st.one_of(families.map(lambda family: Endless(tabulate(family, "x"))), rows)


@FEW
@given(families)
def test_every_table_is_a_distribution(family: LengthFamily):
    table = tabulate(family, "x")

    assert table.cumulative[-1] == 1
    assert np.all(np.diff(table.cumulative) >= 0)
    assert table.cumulative[0] >= 0
    assert abs(table.probabilities.sum() - 1) < 1e-9


@FEW
@given(families, st.lists(st.floats(0, 1, exclude_max=True), min_size=1))
def test_a_quantile_is_the_first_length_whose_share_exceeds_it(family: LengthFamily, uniforms: list[float]):
    table = tabulate(family, "x")

    for uniform, length in zip(uniforms, table.quantile(np.array(uniforms)).tolist(), strict=True):
        assert table.at_most(np.array([length]))[0] > uniform >= table.at_most(np.array([length - 1]))[0]


@FEW
@given(families, st.integers(0, 2**32), st.integers(1, 80))
def test_stratified_batches_differ_from_the_proportions_by_less_than_one(family: LengthFamily, seed: int, count: int):
    table = tabulate(family, "x")
    lengths = draw(table, np.random.default_rng(seed), count, "stratified")
    ends = bin_ends(table.longest)
    shares = np.diff(table.at_most(ends), prepend=0.0)

    counts = np.bincount(np.searchsorted(ends, lengths), minlength=len(ends))

    assert len(lengths) == count
    assert np.all(np.abs(counts - count * shares) < 1 + 1e-6)


@FEW
@given(st.lists(tokens, min_size=1, max_size=60), st.integers(0, 2**32), samplers)
def test_a_walk_is_a_permutation(lengths: list[int], seed: int, sampler: str):
    order = walk(np.array(lengths), np.random.default_rng(seed), sampler)  # type: ignore[arg-type]

    assert sorted(order.tolist()) == list(range(len(lengths)))


@FEW
@given(st.lists(names, min_size=1, max_size=4, unique=True), st.data(), st.integers(0, 2**40), samplers)
def test_sequences_depend_on_seed_name_and_step_alone(tenant_names, data, seed, sampler):
    tenants = tuple(
        Tenant(name, data.draw(st.integers(1, 4)), 1000, overlong=data.draw(policies)) for name in tenant_names
    )
    given_sources = tuple(data.draw(sources) for _ in tenants)
    workload = SampledWorkload(tenants, given_sources, seed, sampler)
    order = data.draw(
        st.permutations(range(len(tenants))).map(lambda whole: whole[: data.draw(st.integers(1, len(whole)))])
    )
    part = workload.only(order)

    for whole_batch, part_batch in zip(workload.batches(3), part.batches(3), strict=True):
        for new, old in enumerate(order):
            mine, its = whole_batch.tenant == old, part_batch.tenant == new
            for column in ("index", "length", "labels"):
                assert getattr(whole_batch, column)[mine].tolist() == getattr(part_batch, column)[its].tolist()
            assert (whole_batch.truncated[old], whole_batch.dropped[old]) == (
                part_batch.truncated[new],
                part_batch.dropped[new],
            )


@FEW
@given(st.lists(tokens, min_size=1, max_size=30), st.integers(1, 3000), policies, st.data())
def test_the_policy_conserves_counts_and_admits_nothing_over_long(lengths, limit, overlong, data):
    labels = np.array([data.draw(st.integers(0, length)) for length in lengths])
    drawn = Drawn(np.arange(len(lengths)), np.array(lengths), labels)
    admitted = admit(Tenant("a", 1, limit, overlong=overlong), drawn)

    assert len(admitted.drawn.length) + admitted.dropped == len(lengths)
    assert admitted.truncated + admitted.dropped == sum(length > limit for length in lengths)
    assert np.all(admitted.drawn.length <= limit)
    assert np.all((admitted.drawn.labels >= 0) & (admitted.drawn.labels <= admitted.drawn.length))


@FEW
@given(st.lists(tokens, min_size=1, max_size=30), st.integers(1, 3000), policies)
def test_the_histogram_of_rows_is_that_of_the_admitted_rows(lengths, limit, overlong):
    tenant = Tenant("a", 1, limit, overlong=overlong)
    source = Rows(np.array(lengths), np.array(lengths))
    kept = [min(length, limit) for length in lengths if overlong == "truncate" or length <= limit]
    if not kept:
        return
    histogram = admitted_histogram(tenant, *source.known())

    assert histogram.lengths.tolist() == sorted(set(kept))
    assert np.allclose(histogram.probabilities, [kept.count(length) / len(kept) for length in sorted(set(kept))])


@FEW
@given(sources, st.integers(5, 3000), st.integers(0, 9), samplers)
def test_whatever_comes_was_announced(source, limit, seed, sampler):
    workload = SampledWorkload((Tenant("a", 4, limit, overlong="truncate"),), (source,), seed, sampler)
    known = set(workload.lengths(0).lengths.tolist())

    for batch in workload.batches(3):
        assert set(batch.length.tolist()) <= known


@FEW
@given(rows, st.integers(1, 4), st.integers(0, 9), samplers)
def test_every_epoch_brings_every_row_once(source, batch_size, seed, sampler):
    workload = SampledWorkload((Tenant("a", batch_size, 4000),), (source,), seed, sampler)
    steps = -(-2 * source.size // batch_size)
    index = np.concatenate([batch.index for batch in workload.batches(steps)])[: 2 * source.size]

    assert sorted(index.tolist()) == list(range(2 * source.size))


@FEW
@given(st.lists(st.integers(1, 500), min_size=1, max_size=12), st.data())
def test_apportioned_shares_sum_to_the_total_and_nobody_gets_nothing(weights, data):
    total = data.draw(st.integers(len(weights), 5000))
    shares = apportion(weights, total)

    assert sum(shares) == total
    assert min(shares) >= 1
    exact = [weight * total / sum(weights) for weight in weights]
    if min(exact) >= 1:
        assert all(abs(share - wanted) < 1 for share, wanted in zip(shares, exact, strict=True))
