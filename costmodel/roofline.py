"""Layer times from first principles, for hardware or models without a profile.

The idea: count floating-point operations and bytes, divide by what the hardware does at best, and take off what kernels
are known to lose. A frozen layer of P weights costs 4 P operations a token (2 P forward, 2 P for the gradient of its
input; none for the gradient of its weights), causal attention 7 s^2 h (2 forward, 5 backward), and four all-reduces
over the tensor-parallel group, not overlapped. Below some hundred tokens the weights' way through memory is the longer
one: the floor. Every micro-batch pays 0.6 ms a layer.

The output head is a matrix like the others, 4 h V operations a token, with one sum over the tensor-parallel group.

Its limits: nothing here was measured on the hardware it is used for. The adapters' own kernels, embedding and loss are
left out. Against the paper's step times of Llama-2-7B on A100-40GB it is 17 to 49 % fast, most for short sequences at
high tp, where the authors' engine spends its time on launches. Every answer is labelled `roofline`.
"""

from costmodel.communication import bytes_per_second, ring_seconds, smallest_node, tensor_link
from costmodel.layer import LayerPrice
from costmodel.messages import Line, Messages
from lobra.errors import BadInput
from lobra.spec import ClusterSpec, ModelSpec

GEMM_EFFICIENCY = 0.55  # of the dense peak, tp 1
TENSOR_EFFICIENCY = {1: 1.0, 2: 0.97, 4: 0.93, 8: 0.86, 16: 0.75}  # what is left of it as the matrices get narrower
FIXED_SECONDS = 0.6e-3  # per layer and micro-batch: launches of eager kernels
FORWARD_LINEAR = 0.5  # 2 P of 4 P operations
FORWARD_ATTENTION = 2 / 7  # 2 of 7 s^2 h operations
ATTENTION_OPERATIONS = 7.0  # times s^2 h
ALL_REDUCES = 4  # of a layer, forward plus backward; recomputation repeats the two forward ones
WEIGHT_PASSES = 2  # forward, and backward for the gradient of the input


def roofline_seconds(operations: float, size: float, teraflops: float, gigabytes_per_second: float) -> float:
    """The longer of computing so many operations and moving so many bytes, in seconds; a GB is 10^9 bytes."""
    return max(operations / (teraflops * 1e12), size / (gigabytes_per_second * 1e9))


def roofline_price(model: ModelSpec, cluster: ClusterSpec, tp: int, messages: Messages | None = None) -> LayerPrice:
    """The price of a layer on a tensor-parallel group of this size; BadInput for a size whose efficiency is unknown.

    messages: what the group's sums cost where that was measured; none: latency and bandwidth of a ring.
    """
    if tp not in TENSOR_EFFICIENCY:
        raise BadInput(f"roofline: tp is {tp}; efficiencies are known for {', '.join(map(str, TENSOR_EFFICIENCY))}")
    gpu, line = cluster.gpu, tensor_line(cluster, tp, messages)
    teraflops = gpu.teraflops * GEMM_EFFICIENCY * TENSOR_EFFICIENCY[tp]
    token_operations = 4.0 * model.layer_parameters / tp
    weight_bytes = WEIGHT_PASSES * 2.0 * model.layer_parameters / tp
    latency = ALL_REDUCES * line.start
    return LayerPrice(
        floor=FIXED_SECONDS
        + latency
        + roofline_seconds(token_operations, weight_bytes, teraflops, gpu.memory_gigabytes_per_second),
        fixed=FIXED_SECONDS + latency,
        run=0.0,
        token=token_operations / (teraflops * 1e12) + ALL_REDUCES * line.byte * 2.0 * model.hidden,
        square=ATTENTION_OPERATIONS * model.hidden / tp / (teraflops * 1e12),
        forward_linear=FORWARD_LINEAR,
        forward_attention=FORWARD_ATTENTION,
    )


def roofline_head(
    model: ModelSpec, cluster: ClusterSpec, tp: int, price: LayerPrice, messages: Messages | None = None
) -> float:
    """What the output head takes a token, forward plus backward, as a multiple of the layer's part a token."""
    teraflops = cluster.gpu.teraflops * GEMM_EFFICIENCY * TENSOR_EFFICIENCY[tp]
    operations = 4.0 * model.hidden * model.vocabulary / tp
    message = tensor_line(cluster, tp, messages).byte * 2.0 * model.hidden
    return (operations / (teraflops * 1e12) + message) / price.token


def tensor_line(cluster: ClusterSpec, tp: int, messages: Messages | None = None) -> Line:
    """Seconds of an all-reduce over a tensor-parallel group as a line of its bytes: a ring's, where nobody measured."""
    if messages is not None and messages.inside and tp <= smallest_node(cluster):
        return messages.line("all_reduce", cluster, tp, crosses=False)
    link = tensor_link(cluster, tp)
    return Line(ring_seconds(link, 0.0, tp), 2 * (tp - 1) / tp / bytes_per_second(link))
