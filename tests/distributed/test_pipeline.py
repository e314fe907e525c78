"""Pipelines of ragged micro-batches, fewer of them than stages, or none."""

import numpy as np
import pytest

from distributed.pool import Pool
from distributed.worlds import LAYOUTS, TENANTS, Job, microbatch, plan_of, sequences
from lobra.plan import MicroBatch, StepPlan
from lobra.schedule import one_forward_one_backward
from lobra.spec import SequenceRef


def ragged(lengths):
    return tuple(MicroBatch(((SequenceRef(0, n, length, length),),), length) for n, length in enumerate(lengths))


@pytest.mark.parametrize("lengths", [(128, 96, 160, 32, 64), (24, 8), (40,), ()], ids=["five", "two", "one", "none"])
def test_four_stages_play_any_number_of_ragged_micro_batches(pool: Pool, lengths):
    four, one = plan_of(((1, 4, None), (2, 2, None))), plan_of(LAYOUTS["TP1"])
    work = ragged(lengths)

    found = pool.run("distributed.jobs", "train", Job(four, (StepPlan(0, (work, ())),)), deadline=60)
    expected = pool.run("distributed.jobs", "train", Job(one, (StepPlan(0, (work,)),)))

    assert found[0]["results"][0].loss_sums == pytest.approx(expected[0]["results"][0].loss_sums, rel=1e-12)
    for name, value in expected[0]["states"]["a"]["value"].items():
        assert np.abs(found[0]["states"]["a"]["value"][name] - value).max() < 1e-9 * TENANTS[0].learning_rate


def test_every_rank_reports_the_spans_of_its_score_in_order(pool: Pool):
    plan = plan_of(((2, 3, None), (1, 1, None)))
    work = ragged((24, 16, 40, 8))

    answers = pool.run("distributed.jobs", "train", Job(plan, (StepPlan(0, (work, work[:1])),)))

    for rank, answer in enumerate(answers):
        spans = answer["results"][0].spans
        played = [(span.kind, span.microbatch) for span in spans if span.kind in ("forward", "backward")]
        stage = rank // 2 if rank < 6 else 0
        score = {6: list(one_forward_one_backward(0, 1, 1)), 7: []}.get(
            rank, list(one_forward_one_backward(stage, 3, 4))
        )
        assert played == score
        ordered = [time for span in spans for time in (span.start, span.end)]
        assert ordered == sorted(ordered)
        assert [span.kind for span in spans].count("synchronise") == 1


def test_a_first_stage_without_any_adapter_still_takes_its_gradients(pool: Pool):
    """Micro-batches of tenants that nobody trains on the first stage's path pass through like all others."""
    plan = plan_of(((1, 2, None),), (TENANTS[0],))
    unlabelled = MicroBatch(((SequenceRef(0, 0, 9, 0),),), 9)
    usual = microbatch(sequences(1, 3, seed=9), packed=True)

    both = pool.run("distributed.jobs", "train", Job(plan, (StepPlan(0, ((unlabelled, usual, unlabelled),)),)))
    alone = pool.run("distributed.jobs", "train", Job(plan, (StepPlan(0, ((usual,),)),)))

    for name, value in alone[0]["states"]["a"]["value"].items():
        assert np.array_equal(both[0]["states"]["a"]["value"][name], value)


def test_no_work_at_all_changes_nothing(pool: Pool):
    plan = plan_of(LAYOUTS["PP3 | TP2xPP2 | TP1"])

    answers = pool.run("distributed.jobs", "train", Job(plan, (StepPlan(0, ((), (), ())),)))

    result = answers[0]["results"][0]
    assert (result.loss_sums, result.label_tokens, result.updated) == ((0.0,) * 4, (0,) * 4, ())
    assert set(answers[0]["counters"].values()) == {(0, 0, 0)}


def test_ranks_may_stand_in_any_order(pool: Pool):
    """A plan that places shards and stages on ranks in a jumble computes the same."""
    from dataclasses import replace

    tidy = plan_of(((2, 2, None), (2, 2, None)))
    places = ((5, 2, 0, 7), (3, 6, 4, 1))
    jumbled = replace(
        tidy, replicas=tuple(replace(each, gpus=gpus) for each, gpus in zip(tidy.replicas, places, strict=True))
    )
    refs = sequences(len(TENANTS), 4, seed=12)
    shared = microbatch(refs[:6], packed=True, group=(1, 0))
    step = StepPlan(0, ((shared, microbatch(refs[6:9], packed=False)), (shared, microbatch(refs[9:], packed=True))))

    one, two = (pool.run("distributed.jobs", "train", Job(plan, (step,)))[0] for plan in (tidy, jumbled))

    for name in "abcd":
        for matrix, value in one["states"][name]["value"].items():
            assert np.abs(value - two["states"][name]["value"][matrix]).max() < 1e-12
