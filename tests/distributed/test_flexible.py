"""A step with groups of several sizes, planned by the flexible dispatch, trains every tenant as if it were alone."""

from dataclasses import replace

import numpy as np

from distributed.pool import Pool
from distributed.reference import Reference
from distributed.test_joint import wrong
from distributed.worlds import LAYOUTS, TENANTS, Job, plan_of, sequences, without_update
from lobra.batch import Batch
from lobra.check import check_conserved
from policies.batching.packed import Packed
from policies.dispatch.balanced import Balanced
from policies.dispatch.flexible import FlexibleGroups
from policies.policy import step_plan
from unit.policies.dispatch.worlds import Talking

BUDGET = 40  # tokens: sequences of up to 130 need groups of two and of four


def test_gradients_of_a_flexible_step_equal_the_reference(pool: Pool):
    plan = plan_of(LAYOUTS["TP1 x 4, shared"])
    plan = replace(plan, replicas=tuple(replace(replica, budget=BUDGET) for replica in plan.replicas))
    refs = [
        *sequences(len(TENANTS), 6, seed=9, longest=60),
        *sequences(len(TENANTS), 1, seed=10, shortest=90, longest=130),
    ]
    batch = Batch(0, *np.array(refs).T)
    step = step_plan(
        batch, plan, Packed(class_step=8), FlexibleGroups(None, Balanced(repair=8)), Talking(floor=0.0, fixed=0.01)
    )
    check_conserved(batch, step)

    answers = pool.run("distributed.jobs", "train", Job(plan, (without_update(step),)))

    assert {len(microbatch.group) for work in step.work for microbatch in work} == {0, 2, 4}
    reference = Reference(Job(plan, ()))
    losses = reference.losses(refs)
    assert np.allclose(answers[0]["results"][0].loss_sums, losses, rtol=1e-12, atol=0)
    states = answers[0]["states"]
    assert {
        tenant.name: wrong(states[tenant.name]["gradient"], reference.gradients(tenant.name)) < 1e-12
        for tenant in TENANTS
    } == dict.fromkeys((tenant.name for tenant in TENANTS), True)
