"""Extremes of data that other trainers met: over-long sequences, small sets, ragged batches."""

import numpy as np
import pytest

import toys
from lobra.check import check_conserved
from lobra.errors import BadInput, Infeasible
from lobra.spec import Tenant
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.dispatch.uniform import Uniform
from policies.policy import step_plan
from workloads.sampled import SampledWorkload
from workloads.sources import Rows


def rows(*lengths: int) -> Rows:
    return Rows(np.array(lengths), np.array(lengths))


def workload_of(*lengths: int, limit: int, overlong: str = "reject", batch_size: int | None = None) -> SampledWorkload:
    tenant = Tenant("lone", batch_size or len(lengths), limit, overlong=overlong)  # type: ignore[arg-type]
    return SampledWorkload((tenant,), (rows(*lengths),))


@pytest.mark.parametrize(("overlong", "kept", "counted"), [("truncate", [60], (1, 0)), ("drop", [], (0, 1))])
def test_one_sequence_of_121_tokens_under_a_limit_of_60_follows_the_declared_policy(overlong, kept, counted):
    """meta-pytorch/torchtune#1689: a RuntimeError came of it."""
    (batch,) = workload_of(121, limit=60, overlong=overlong).batches(1)

    assert batch.length.tolist() == kept
    assert (batch.truncated, batch.dropped) == ((counted[0],), (counted[1],))
    with pytest.raises(Infeasible, match="'lone': a sequence of 121 tokens is longer than its limit of 60"):
        workload_of(121, limit=60)


@pytest.mark.parametrize("batching", [Padded(), Packed()], ids=["padded", "packed"])
@pytest.mark.parametrize(
    ("overlong", "trained", "counted"),
    [("truncate", [100, 2048, 2048, 2048], ((2,), (0,))), ("drop", [100, 2048], ((0,), (2,)))],
)
def test_the_overlong_policy_is_the_same_for_padding_and_packing(batching, overlong, trained, counted):
    """torchtune#1059, modelscope/ms-swift#2745, axolotl PR#2211: deleted in one mode, cut in the other, not counted."""
    (batch,) = workload_of(100, 2048, 2049, 5762, limit=2048, overlong=overlong).batches(1)

    step = step_plan(batch, toys.plan((2, 1, 1)), batching, Uniform(), toys.ToyCost())

    placed = [sequence.length for work in step.work for m in work for row in m.rows for sequence in row]
    assert sorted(placed) == trained
    assert (batch.truncated, batch.dropped) == counted


def test_a_set_smaller_than_its_batch_is_refused_with_name_size_and_batch():
    """mosaicml/llm-foundry PR#549: fewer samples than a batch gave no batch at all, cryptically."""
    with pytest.raises(BadInput, match="'lone': it has 7 sequences, fewer than its batch size 8"):
        workload_of(*range(1, 8), limit=100, batch_size=8)


def test_sets_of_different_sizes_are_each_seen_whole_and_say_how_often():
    """fe1ixxu/ALMA#63, huggingface/datasets PR#7955: the small set over-sampled, or all stopped at the shortest."""
    tenants = tuple(Tenant(name, 1, 100) for name in "abc")
    workload = SampledWorkload(tenants, (rows(1, 2, 3), rows(11, 12, 13, 14), rows(21, 22, 23)))

    seen = [ref for batch in workload.batches(4) for ref in batch.refs()]

    for tenant, size in enumerate((3, 4, 3)):
        once = [ref.length for ref in seen if ref.tenant == tenant][:size]
        assert sorted(once) == [10 * tenant + place for place in range(1, size + 1)]
    assert workload.epochs(4) == (4 / 3, 1.0, 4 / 3)


@pytest.mark.parametrize("batching", [Padded(), Packed()], ids=["padded", "packed"])
def test_ragged_and_empty_batches_are_planned_like_any_other(batching):
    """LoRAFusion's group_adapters: three samples and then two gave a ValueError, none at all a TypeError."""
    plan = toys.plan((1, 1, 2))
    for lengths in ((5, 6, 7), (8, 9), ()):
        batch = toys.batch(*lengths)

        step = step_plan(batch, plan, batching, Uniform(), toys.ToyCost())

        check_conserved(batch, step)
        assert sum(len(row) for work in step.work for m in work for row in m.rows) == len(lengths)


@pytest.mark.parametrize("sampler", ["iid", "stratified"])
def test_a_break_in_mid_epoch_changes_none_of_the_samples_that_follow(sampler):
    """huggingface/accelerate PR#4071: 125 steps an epoch, saved at 200; step 201 drew as if the epoch began anew."""
    tenant = Tenant("lone", 4, 1000)

    def workload():
        return SampledWorkload((tenant,), (rows(*range(1, 501)),), seed=3, sampler=sampler)

    straight = [batch.index.tolist() for batch in workload().batches(210)]
    resumed = [workload().batch(step).index.tolist() for step in range(200, 210)]

    assert straight[200:] == resumed
    assert straight[75:85] != resumed  # the same places of an epoch before: another order
