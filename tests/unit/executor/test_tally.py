"""Figures that every rank counts from the plan."""

from distributed.worlds import LAYOUTS, TENANTS, microbatch, plan_of, sequences
from executor.tally import label_tokens
from lobra.plan import StepPlan


def test_a_shared_micro_batch_is_counted_once():
    refs = sequences(len(TENANTS), 3, seed=4)
    shared, alone = microbatch(refs[:7], packed=True, group=(1, 3)), microbatch(refs[7:], packed=False)
    step = StepPlan(0, ((), (shared,), (alone,), (shared,)))

    counts = label_tokens(step, len(plan_of(LAYOUTS["TP1 x 4, shared"]).tenants))

    assert counts == [sum(ref.labels for ref in refs if ref.tenant == tenant) for tenant in range(4)]
