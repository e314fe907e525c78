"""What an order without flushes asks for, flushed all the same on the executor: the training is that of plain steps."""

from dataclasses import replace

import pytest

from distributed.small_runs import ONE, A, B, alone, refs, step, tensors, updated_alike
from distributed.worlds import CONFIG, plan_of
from lobra.batch import Batch
from policies.adaptive.adaptive import Adaptive
from policies.adaptive.round_robin import RoundRobin
from toys import ToyCost

BATCHES = (
    (refs(0, 9, 5, 12, 7), refs(1, 6, 11)),
    (refs(0, 8, 3, first=4), refs(1, 10, 4, 13, first=2)),
)


def drawn(number: int) -> Batch:
    columns = zip(*(sequence for part in BATCHES[number] for sequence in part), strict=True)
    owners, indices, lengths, labels = columns
    return Batch(number, owners, indices, lengths, labels)


@pytest.mark.parametrize("order", [Adaptive(tile=4, capacity=16), RoundRobin(capacity=16)])
def test_many_small_step_plans_with_updates_train_as_one_step_a_batch(order):
    plan = plan_of(ONE, (A, B), CONFIG)
    parts = list(order.steps(iter([drawn(0), drawn(1)]), plan, ToyCost()))
    assert len(parts) > 2

    engine, results = alone((A, B), *(replace(part, drain=True) for part in parts))
    plain, _ = alone((A, B), *(step(number, [*a, *b]) for number, (a, b) in enumerate(BATCHES)))

    assert [adapter.updates for adapter in engine.adapters] == [2, 2]
    assert sum(sum(result.label_tokens) for result in results) > 0
    for tenant in (A, B):
        assert updated_alike(tensors(engine, tenant.name), tensors(plain, tenant.name), tenant.learning_rate)
