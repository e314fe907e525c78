"""Is a step plan legal for its deployment, and does it train every sequence exactly once?"""

from collections import Counter

from lobra.batch import Batch
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, MicroBatch, StepPlan


def check_step(plan: DeploymentPlan, step: StepPlan) -> None:
    """Refuse work for the wrong number of replicas, that does not fit, or whose shared micro-batches disagree."""
    if len(step.work) != len(plan.replicas):
        raise BadInput(f"step {step.step}: work for {len(step.work)} replicas, but the plan has {len(plan.replicas)}")
    for replica, work in enumerate(step.work):
        for number, microbatch in enumerate(work):
            _check_fit(plan, step.step, replica, number, microbatch)
    _check_groups(plan, step)
    if step.updates is not None and not all(0 <= tenant < len(plan.tenants) for tenant in step.updates):
        raise BadInput(f"step {step.step}: updates is {step.updates}, but the plan has {len(plan.tenants)} tenants")


def _check_fit(plan: DeploymentPlan, step: int, replica: int, number: int, microbatch: MicroBatch) -> None:
    config, budget = plan.replicas[replica].config, plan.replicas[replica].budget
    tokens, room = len(microbatch.rows) * microbatch.width, budget * max(1, len(microbatch.group))
    if tokens > room:
        raise BadInput(
            f"step {step}: micro-batch {number} of replica {replica} {config} holds {tokens} tokens, but {room} fit"
        )


def _check_groups(plan: DeploymentPlan, step: StepPlan) -> None:
    shared: dict[tuple[int, ...], dict[int, list[MicroBatch]]] = {}
    for replica, work in enumerate(step.work):
        alone = False
        for microbatch in work:
            if not microbatch.group:
                alone = True
                continue
            if alone:
                raise BadInput(f"step {step.step}: replica {replica} has a shared micro-batch after an unshared one")
            if replica not in microbatch.group or not all(0 <= i < len(plan.replicas) for i in microbatch.group):
                raise BadInput(f"step {step.step}: replica {replica} holds a micro-batch of group {microbatch.group}")
            shared.setdefault(microbatch.group, {}).setdefault(replica, []).append(microbatch)
    for group, copies in shared.items():
        if len({(plan.replicas[i].config, plan.replicas[i].budget) for i in group}) > 1:
            raise BadInput(
                f"step {step.step}: group {group} joins unequal replicas; context parallelism needs equal ones"
            )
        first = copies.get(group[0], [])
        if any(copies.get(member) != first for member in group):
            raise BadInput(
                f"step {step.step}: the members of group {group} do not hold the same micro-batches in one order"
            )


def check_conserved(batch: Batch, step: StepPlan) -> None:
    """Refuse a step plan that loses, duplicates or changes a sequence of the batch."""
    placed: Counter[tuple[int, ...]] = Counter()
    for replica, work in enumerate(step.work):
        for microbatch in work:
            if not microbatch.group or microbatch.group[0] == replica:
                placed.update(sequence for row in microbatch.rows for sequence in row)
    wanted: Counter[tuple[int, ...]] = Counter(batch.refs())
    if placed != wanted:
        lost, extra = wanted - placed, placed - wanted
        example = next(iter(lost or extra))
        raise BadInput(f"step {step.step}: {lost.total()} sequences lost, {extra.total()} too many, such as {example}")
