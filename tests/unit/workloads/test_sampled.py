"""Sampled workloads: pure, independent of who else is there, exact about what a planner may know."""

import hashlib
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from lobra.errors import BadInput
from lobra.protocols import Workload
from lobra.spec import Tenant
from workloads.catalogue import named_workload
from workloads.lengths import Beta
from workloads.sampled import SampledWorkload
from workloads.sources import Endless, Rows
from workloads.table import tabulate

DIGEST = """
import hashlib
from workloads.catalogue import named_workload
digest = hashlib.sha256()
for batch in named_workload("lobra6", seed=7, sampler="stratified").batches(2):
    for column in (batch.tenant, batch.index, batch.length, batch.labels):
        digest.update(column.tobytes())
print(digest.hexdigest())
"""


def rows(*lengths: int) -> Rows:
    return Rows(np.array(lengths), np.array(lengths))


def small(seed: int = 0, sampler: str = "iid") -> SampledWorkload:
    tenants = (Tenant("law", 8, 4096), Tenant("rows", 3, 4096))
    table = tabulate(Beta(2, 3, 10, 400), "law")
    return SampledWorkload(tenants, (Endless(table), rows(*range(10, 17))), seed, sampler)  # type: ignore[arg-type]


def columns(workload: SampledWorkload, steps: int, tenant: int) -> list[list[tuple[int, int, int]]]:
    return [[tuple(ref[1:]) for ref in batch.refs() if ref.tenant == tenant] for batch in workload.batches(steps)]


def test_it_is_a_workload():
    workload: Workload = small()

    assert [tenant.name for tenant in workload.tenants] == ["law", "rows"]


@pytest.mark.parametrize("sampler", ["iid", "stratified"])
def test_every_call_gives_the_same_batches(sampler):
    workload = small(sampler=sampler)

    assert [batch.refs() for batch in workload.batches(5)] == [batch.refs() for batch in workload.batches(5)]
    assert workload.batch(3).refs() == list(workload.batches(5))[3].refs()


def test_another_seed_or_step_gives_other_sequences():
    workload = small()

    assert workload.batch(0).length.tolist() != workload.batch(1).length.tolist()
    assert workload.batch(0).length.tolist() != small(seed=1).batch(0).length.tolist()


@pytest.mark.parametrize("sampler", ["iid", "stratified"])
def test_a_tenants_sequences_do_not_depend_on_the_others_or_on_the_order(sampler):
    both = small(sampler=sampler)
    swapped = both.only([1, 0])

    assert columns(both, 4, 1) == columns(both.only([1]), 4, 0) == columns(swapped, 4, 0)
    assert columns(both, 4, 0) == columns(both.only([0]), 4, 0) == columns(swapped, 4, 1)


def test_tenants_of_equal_law_bring_different_sequences():
    table = tabulate(Beta(2, 3, 10, 400), "law")
    workload = SampledWorkload((Tenant("a", 50, 4096), Tenant("b", 50, 4096)), (Endless(table), Endless(table)))
    lengths = workload.batch(0).length

    assert lengths[:50].tolist() != lengths[50:].tolist()


def test_only_keeps_sequences_seed_and_sampler():
    workload = named_workload("lobra6", seed=3, sampler="stratified")
    part = workload.only([4, 2])

    assert [tenant.name for tenant in part.tenants] == ["meetingbank", "xsum"]
    assert columns(workload, 2, 4) == columns(part, 2, 0)
    assert part.lengths(1).lengths.tolist() == workload.lengths(2).lengths.tolist()


def test_the_index_is_the_position_in_an_endless_stream():
    batches = list(small().batches(3))

    assert [batch.index[:8].tolist() for batch in batches] == [list(range(8 * step, 8 * step + 8)) for step in range(3)]


def test_rows_are_walked_epoch_by_epoch_each_in_another_order():
    workload = small().only([1])
    index = np.concatenate([batch.index for batch in workload.batches(7)])  # 21 sequences: 3 epochs of 7 rows

    assert [sorted(index[7 * epoch : 7 * epoch + 7] - 7 * epoch) for epoch in range(3)] == [list(range(7))] * 3
    assert (index[:7] % 7).tolist() != (index[7:14] % 7).tolist()


def test_a_rows_length_goes_with_its_index():
    for batch in small().only([1]).batches(5):
        assert batch.length.tolist() == (10 + batch.index % 7).tolist()


def test_small_and_large_data_sets_report_their_epochs():
    tenants = tuple(Tenant(name, 1, 100) for name in "abc")
    workload = SampledWorkload(tenants, (rows(5, 6, 7), rows(5, 6, 7, 8), rows(5, 6, 7)))

    assert workload.epochs(6) == (2.0, 1.5, 2.0)
    assert small().epochs(7) == (None, 3.0)


def test_fewer_sequences_than_the_batch_size_are_refused_with_both_numbers():
    with pytest.raises(BadInput, match="tenant 'few': it has 7 sequences, fewer than its batch size 8"):
        SampledWorkload((Tenant("few", 8, 100),), (rows(*range(1, 8)),))


@pytest.mark.parametrize("sampler", ["iid", "stratified"])
def test_the_histograms_mean_is_the_mean_of_what_comes(sampler):
    workload = named_workload("lobra12", sampler=sampler, batch_size=24_000)
    batches = list(workload.batches(5))

    for tenant in range(12):
        lengths = np.concatenate([batch.length[batch.tenant == tenant] for batch in batches])
        histogram = workload.lengths(tenant)
        mean = float(histogram.lengths @ histogram.probabilities)
        error = lengths.std() / np.sqrt(len(lengths))

        assert abs(lengths.mean() - mean) < 4 * error
        assert set(lengths.tolist()) <= set(histogram.lengths.tolist())


@pytest.mark.parametrize("sampler", ["iid", "stratified"])
def test_a_batch_of_131072_sequences_takes_well_under_a_second(sampler):
    workload = named_workload("lobra12", sampler=sampler, batch_size=131_072)
    start = time.process_time()
    batch = workload.batch(0)
    seconds = time.process_time() - start

    assert len(batch) == 131_072
    assert seconds < 0.5


def test_the_same_bytes_come_whatever_the_hash_seed():
    expected = hashlib.sha256()
    for batch in named_workload("lobra6", seed=7, sampler="stratified").batches(2):
        for column in (batch.tenant, batch.index, batch.length, batch.labels):
            expected.update(column.tobytes())
    run = subprocess.run(
        [sys.executable, "-c", DIGEST],
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.strip() == expected.hexdigest()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SampledWorkload((), ()), "give at least one tenant"),
        (lambda: SampledWorkload((Tenant("a", 1, 9),), ()), "0 sources for 1 tenants"),
        (lambda: SampledWorkload((Tenant("a", 1, 9),) * 2, (rows(1),) * 2), "the name 'a' stands twice"),
        (lambda: small(seed=-1), "seed is -1; it must be a whole number >= 0"),
        (lambda: small(sampler="random"), "sampler is 'random'"),
    ],
)
def test_impossible_workloads_are_refused(make, words):
    with pytest.raises(BadInput, match=words):
        make()
