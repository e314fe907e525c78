"""A prepared store as a tenant's rows."""

import pytest

from lobra.errors import BadInput
from lobra.store import StoreWriter
from workloads.stored import store_rows


def test_rows_have_the_lengths_and_labels_of_the_store(tmp_path):
    with StoreWriter(tmp_path / "s", 10) as store:
        store.append([1, 5, 6, 7, 2], [(3, 5)])
        store.append([3, 4, 2], [(1, 3)])
        store.origin["empty"] = 4
    rows = store_rows(tmp_path / "s", "t")

    assert (rows.lengths.tolist(), rows.labels.tolist(), rows.empty) == ([5, 3], [2, 2], 4)


def test_a_broken_store_is_refused_in_the_tenants_name(tmp_path):
    with pytest.raises(BadInput, match=r"tenant 'a': .*it is no token store"):
        store_rows(tmp_path, "tenant 'a'")
