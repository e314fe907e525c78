"""What replicas tell one another: activations between stages, gradients between replicas."""

from costmodel.memory import ADAPTER_BYTES, GRADIENT_BYTES, OPTIMISER_BYTES, adapter_parameters
from costmodel.messages import PAIR, Messages
from lobra.plan import DeploymentPlan, Shape
from lobra.schedule import stage_sizes

ACTIVATION_BYTES = 2  # bfloat16
# Adam reads gradient, master copy and both moments, and writes the latter three and the bfloat16 adapter.
UPDATE_BYTES = GRADIENT_BYTES + 2 * OPTIMISER_BYTES + ADAPTER_BYTES


def transfer_seconds(plan: DeploymentPlan, replica: int, shape: Shape, messages: Messages | None = None) -> float:
    """Seconds to hand activations (or their gradients) to the next stage, over the slowest boundary; 0 if pp = 1.

    Each shard of a stage sends its part of the tokens * hidden numbers to its peer.
    """
    place = plan.replicas[replica]
    tp, pp = place.config.tp, place.config.pp
    if pp == 1:
        return 0.0
    node_of = plan.cluster.node_of
    crosses = any(
        node_of(place.gpus[number]) != node_of(place.gpus[number + tp]) for number in range(len(place.gpus) - tp)
    )
    size = ACTIVATION_BYTES * plan.model.hidden * shape.tokens / (tp * shape.shards)
    return (messages or Messages()).seconds("point_to_point", plan.cluster, size, PAIR, crosses=crosses)


def synchronise_seconds(plan: DeploymentPlan, messages: Messages | None = None) -> float:
    """Seconds to sum the adapters' gradients over all replicas and to take the optimiser's step.

    The gradients are cut as finely as the finest replica cuts them; the replica of the fewest GPUs has the most to send
    on each. One replica has nobody to tell, but updates all the same.
    """
    cluster, layers = plan.cluster, plan.model.layers
    trained = sum(adapter_parameters(plan.model, tenant) for tenant in plan.tenants)
    largest = max(
        trained * max(stage_sizes(layers, replica.config.pp, replica.layers)) / replica.config.tp
        for replica in plan.replicas
    )
    update = UPDATE_BYTES * largest / (cluster.gpu.memory_gigabytes_per_second * 1e9)
    nodes = {cluster.node_of(gpu) for replica in plan.replicas for gpu in replica.gpus}
    size, members = GRADIENT_BYTES * largest, len(plan.replicas)
    return (messages or Messages()).seconds("all_reduce", cluster, size, members, crosses=len(nodes) > 1) + update
