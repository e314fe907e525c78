"""What the executor cannot run is refused by name."""

from dataclasses import replace

import pytest

from distributed.worlds import CONFIG, LAYOUTS, TENANTS, microbatch, plan_of, sequences
from executor.admission import admit_plan, admit_step
from executor.settings import Settings
from lobra.errors import BadInput
from lobra.plan import MicroBatch, ReplicaConfig, StepPlan
from lobra.spec import SequenceRef

SETTINGS = Settings(total_updates=10)
PLAN = plan_of(LAYOUTS["TP1 x 4, shared"])
REFS = sequences(4, 2, seed=0)


def shared(*group):
    return microbatch(REFS[:3], packed=True, group=group)


def refuse_plan(plan, text, settings=SETTINGS, world=8):
    with pytest.raises(BadInput, match=text):
        admit_plan(plan, CONFIG, settings, world)


def refuse_step(step, text, plan=PLAN):
    with pytest.raises(BadInput, match=text):
        admit_step(plan, step, CONFIG)


def test_sharded_weights_are_refused():
    replicas = tuple(replace(each, config=ReplicaConfig(1, 1, fsdp=2)) for each in PLAN.replicas)

    refuse_plan(replace(PLAN, replicas=replicas), r"replica 0: fsdp is 2;.*use fsdp 1")


def test_tenants_whose_sequences_outgrow_the_models_positions_are_refused():
    limit = max(tenant.context_limit for tenant in TENANTS)

    admit_plan(PLAN, replace(CONFIG, context=limit), SETTINGS, 8)
    with pytest.raises(BadInput, match=rf"context_limit is {limit}, but the model knows only {limit - 1} positions"):
        admit_plan(PLAN, replace(CONFIG, context=limit - 1), SETTINGS, 8)


def test_a_cluster_larger_than_the_job_is_refused():
    refuse_plan(PLAN, r"cluster 'toy' has 4 GPUs, but the job has 2 ranks", world=2)


def test_a_tp_the_model_cannot_take_is_refused():
    refuse_plan(plan_of(((3, 1, None),)), r"tp 3 cannot split 8 heads")


def test_a_module_the_model_lacks_is_refused():
    odd = (replace(TENANTS[0], target_modules=("q_proj", "c_attn")),)

    refuse_plan(plan_of(LAYOUTS["TP1"], odd), r"tenant 'a': there is no module 'c_attn'; choose from q_proj, ")


def test_a_schedule_without_end_is_refused():
    refuse_plan(PLAN, r"tenant 'd': schedule 'cosine' needs", settings=Settings())


def test_an_undrained_pipeline_is_refused():
    refuse_step(StepPlan(3, ((), (), (), ()), drain=False), r"step 3: drain is false;.*use drain true")


def test_a_sequence_of_an_unknown_tenant_is_refused_naming_the_known():
    odd = MicroBatch(((SequenceRef(4, 0, 5, 5),),), 5)

    refuse_step(
        StepPlan(0, ((odd,), (), (), ())), r"belongs to tenant 4, but the plan knows 0 \(a\), 1 \(b\), 2 \(c\), 3 \(d\)"
    )


@pytest.mark.parametrize("ref", [SequenceRef(0, 1, 0, 0), SequenceRef(0, 1, 5, 6)])
def test_an_empty_or_overlabelled_sequence_is_refused(ref):
    refuse_step(StepPlan(0, ((MicroBatch(((ref,),), 5),), (), (), ())), r"sequence 1 of tenant 'a' has length")


def test_a_group_that_cannot_share_the_heads_is_refused():
    group = (0, 1, 2)

    refuse_step(StepPlan(0, (*((shared(*group),),) * 3, ())), r"a group of 3 replicas cannot share 8 heads")


def test_a_group_of_replicas_with_different_cuts_is_refused():
    plan = plan_of(((1, 2, (0, 1)), (1, 2, (0, 3))))

    refuse_step(StepPlan(0, ((shared(0, 1),), (shared(0, 1),))), r"group \(0, 1\) joins replicas whose layers", plan)


def test_shared_micro_batches_in_a_circle_are_refused_instead_of_hanging():
    one, two, three = shared(0, 1), shared(1, 2), shared(0, 2)

    refuse_step(StepPlan(0, ((three, one), (one, two), (two, three), ())), r"would wait for ever at the forward of")


def test_shared_micro_batches_in_a_common_order_are_admitted():
    one, two, three = shared(0, 1), shared(1, 2), shared(0, 2)
    alone = microbatch(REFS[3:5], packed=False)

    admit_step(PLAN, StepPlan(0, ((one, three, alone), (one, two), (two, three, alone), (alone,))), CONFIG)


def test_a_pipeline_in_which_an_unshared_turn_stands_between_is_found_out():
    """Replica 0 must forward X before it takes back Y, replica 1 wants Y back before it forwards X."""
    plan = plan_of(((1, 2, None), (1, 2, None), (1, 2, None)))
    y, x, z = shared(0, 1), MicroBatch(shared(0, 1).rows, 900, (0, 1)), shared(1, 2)

    refuse_step(StepPlan(0, ((y, x), (y, z, x), (z,))), r"would wait for ever", plan)
    admit_step(plan, StepPlan(0, ((y, x), (y, x, z), (z,))), CONFIG)
