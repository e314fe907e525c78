"""What this executor cannot run is refused by name, before anything starts."""

from executor.adapters import targets
from executor.config import ModelConfig
from executor.context_parallel import check_heads
from executor.mesh import stage_layers
from executor.optimiser import check_schedule
from executor.order import check_order
from executor.settings import Settings
from lobra.check import check_step
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.spec import SequenceRef


def admit_plan(plan: DeploymentPlan, config: ModelConfig, settings: Settings, world: int) -> None:
    """Refuse a deployment that these ranks cannot hold or this executor cannot run."""
    config.check_spec(plan.model)
    if plan.cluster.gpus > world:
        raise BadInput(
            f"cluster '{plan.cluster.name}' has {plan.cluster.gpus} GPUs, but the job has {world} ranks; start more"
        )
    for number, replica in enumerate(plan.replicas):
        if replica.config.fsdp > 1:
            raise BadInput(
                f"replica {number}: fsdp is {replica.config.fsdp}; the executor does not shard frozen weights, "
                "use fsdp 1 (the simulator plays it)"
            )
        config.check_tp(replica.config.tp)
    config.check_contexts(plan.tenants)
    for tenant in plan.tenants:
        targets(tenant)
        check_schedule(tenant, settings.total_updates)


def admit_step(plan: DeploymentPlan, step: StepPlan, config: ModelConfig) -> None:
    """Refuse a step plan that is illegal for its deployment, would hang, or asks for an undrained pipeline."""
    check_step(plan, step)
    if not step.drain:
        raise BadInput(
            f"step {step.step}: drain is false; the executor empties its pipelines between step plans, "
            "use drain true (the simulator plays it)"
        )
    check_order(plan, step)
    for work in step.work:
        for microbatch in work:
            _check_sequences(plan, step.step, microbatch.rows)
            if microbatch.group:
                _check_group(plan, microbatch.group, config)


def _check_group(plan: DeploymentPlan, group: tuple[int, ...], config: ModelConfig) -> None:
    tp = plan.replicas[group[0]].config.tp
    check_heads(config.heads // tp, max(1, config.kv_heads // tp), len(group))
    stages = range(plan.replicas[group[0]].config.pp)
    cuts = {tuple(stage_layers(plan, member, stage) for stage in stages) for member in group}
    if len(cuts) > 1:
        raise BadInput(f"group {group} joins replicas whose layers are cut differently; give them one cut")


def _check_sequences(plan: DeploymentPlan, step: int, rows: tuple[tuple[SequenceRef, ...], ...]) -> None:
    for row in rows:
        for sequence in row:
            tenant, index, length, labels = sequence
            if not 0 <= tenant < len(plan.tenants):
                raise BadInput(
                    f"step {step}: a sequence belongs to tenant {tenant}, but the plan knows "
                    f"{', '.join(f'{i} ({each.name})' for i, each in enumerate(plan.tenants))}"
                )
            if length < 1 or not 0 <= labels <= length:
                raise BadInput(
                    f"step {step}: sequence {index} of tenant '{plan.tenants[tenant].name}' has length {length} and "
                    f"{labels} labels; leave empty sequences out, labels lie in 0..length"
                )
