"""Sequences beyond the context limit: refused, cut or left out, and counted."""

import numpy as np
import pytest

from lobra.errors import Infeasible
from lobra.spec import Tenant
from workloads.lengths import Empirical, ShiftedLogNormal
from workloads.overlong import admit, admitted_histogram
from workloads.sampled import SampledWorkload
from workloads.sources import Drawn, Endless, Rows
from workloads.table import tabulate

LENGTHS = np.array([100, 2048, 2049, 5762])
DRAWN = Drawn(np.arange(4) + 40, LENGTHS, np.array([10, 48, 49, 5000]))


def tenant(overlong: str, limit: int = 2048, batch_size: int = 4) -> Tenant:
    return Tenant("law", batch_size, limit, overlong=overlong)  # type: ignore[arg-type]


def workload(overlong: str) -> SampledWorkload:
    return SampledWorkload((tenant(overlong),), (Rows(LENGTHS, LENGTHS),))


def test_truncate_cuts_at_the_limit_and_counts():
    admitted = admit(tenant("truncate"), DRAWN)

    assert admitted.drawn.length.tolist() == [100, 2048, 2048, 2048]
    assert (admitted.truncated, admitted.dropped) == (2, 0)


def test_a_cut_sequence_loses_the_labels_of_its_end():
    assert admit(tenant("truncate"), DRAWN).drawn.labels.tolist() == [10, 48, 48, 5000 - (5762 - 2048)]
    assert admit(
        tenant("truncate", 80), Drawn(np.array([0]), np.array([100]), np.array([10]))
    ).drawn.labels.tolist() == [0]


def test_drop_leaves_out_and_counts_and_gives_the_index_to_nobody_else():
    admitted = admit(tenant("drop"), DRAWN)

    assert admitted.drawn.length.tolist() == [100, 2048]
    assert admitted.drawn.index.tolist() == [40, 41]
    assert (admitted.truncated, admitted.dropped) == (0, 2)


def test_reject_names_tenant_length_and_limit():
    with pytest.raises(Infeasible, match="tenant 'law': a sequence of 5762 tokens is longer than its limit of 2048"):
        admit(tenant("reject"), DRAWN)


def test_rejected_rows_are_known_before_the_first_batch():
    with pytest.raises(Infeasible, match="5762 tokens"):
        workload("reject")


def test_a_law_with_an_end_beyond_the_limit_is_rejected_before_the_first_batch():
    table = tabulate(Empirical((0, 1), (10, 3000)), "x")

    with pytest.raises(Infeasible, match="3000 tokens"):
        SampledWorkload((tenant("reject"),), (Endless(table),))


def test_a_law_without_end_is_rejected_when_an_over_long_sequence_comes():
    table = tabulate(ShiftedLogNormal(0, 7, 1), "x")
    never = SampledWorkload((tenant("reject", limit=table.longest + 1),), (Endless(table),))
    soon = SampledWorkload((tenant("reject"),), (Endless(table),))

    assert [len(batch) for batch in never.batches(3)] == [4, 4, 4]
    with pytest.raises(Infeasible, match="longer than its limit of 2048"):
        list(soon.batches(20))


def test_counts_stand_in_the_batch_for_each_tenant():
    source = Rows(LENGTHS, LENGTHS)
    tenants = (tenant("truncate"), Tenant("other", 4, 2048, overlong="drop"), Tenant("third", 4, 9000))
    (batch,) = SampledWorkload(tenants, (source, source, source)).batches(1)

    assert batch.truncated == (2, 0, 0)
    assert batch.dropped == (0, 2, 0)
    assert np.bincount(batch.tenant).tolist() == [4, 2, 4]


def test_the_histogram_of_truncate_piles_up_at_the_limit():
    histogram = workload("truncate").lengths(0)

    assert histogram.lengths.tolist() == [100, 2048]
    assert histogram.probabilities.tolist() == [0.25, 0.75]


def test_the_histogram_of_truncate_gains_the_limit_where_no_sequence_has_it():
    histogram = admitted_histogram(tenant("truncate", 1000), LENGTHS, np.full(4, 0.25))

    assert histogram.lengths.tolist() == [100, 1000]
    assert histogram.probabilities.tolist() == [0.25, 0.75]


def test_the_histogram_of_drop_is_of_what_remains():
    histogram = workload("drop").lengths(0)

    assert histogram.lengths.tolist() == [100, 2048]
    assert histogram.probabilities.tolist() == [0.5, 0.5]


def test_a_tenant_of_which_nothing_remains_is_infeasible():
    with pytest.raises(Infeasible, match="each of its sequences is longer than its limit of 50"):
        admitted_histogram(tenant("drop", 50), LENGTHS, np.full(4, 0.25))


@pytest.mark.parametrize(("overlong", "kept"), [("truncate", [60]), ("drop", [])])
def test_one_sequence_of_121_tokens_under_a_limit_of_60_is_cut_or_left_out(overlong, kept):
    workload = SampledWorkload((tenant(overlong, 60, 1),), (Rows(np.array([121]), np.array([121])),))
    (batch,) = workload.batches(1)

    assert batch.length.tolist() == kept
    assert (batch.truncated, batch.dropped) == ((len(kept),), (1 - len(kept),))
