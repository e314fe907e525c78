"""Layer times of models that nobody timed, from how efficient the kernels of a GPU are: curves, and lines for planners.

The idea: a roofline whose efficiencies were measured. A layer of P weights on tp GPUs, for N tokens in sequences with
S2 = sum of squared lengths, forward plus backward and without the gradient of frozen weights, takes

    weights    passes of 4 P / tp bytes, once a micro-batch
    matrices   4 P / tp operations a token at an efficiency that bends in N
    elements   passes of 2 h bytes a token, and of 2 (h + i) / tp
    attention  7 h / tp operations a unit of S2, some tokens more a sequence, and a time a row and head
    adapters   passes over what goes in and out of every adapted matrix, of which tp divides one side
    messages   four sums over the tensor-parallel group

and a fixed part. All numbers are shares of the peak or passes over memory, so they carry over to another model on the
same family of GPUs: of a model left out the kernels' sum is met to some per cent. The head is a matrix too; the loss
is passes over the logits. Sources, points and held-out errors stand in `sources/efficiency.json`
(`python -m costmodel.fit_efficiency`).

Its limits: backward kernels are derived from forward ones; the adapters' part was measured on H100 at tp 1 with rank 16
on every matrix, and is taken over to other families by memory bandwidth; launches were hidden there by graphs, so an
eager engine is slower at few tokens. Every answer is labelled `roofline`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from costmodel import sources
from costmodel.knots import Curve
from costmodel.layer import LayerPrice
from costmodel.messages import Messages
from costmodel.profile import Profile, fit_profile
from costmodel.roofline import ALL_REDUCES, ATTENTION_OPERATIONS, tensor_line
from costmodel.views import Directions
from lobra.batch import Array
from lobra.errors import BadInput
from lobra.spec import ClusterSpec, GpuSpec, ModelSpec

FILE = sources.FOLDER / "efficiency.json"
FORWARD_LINEAR, FORWARD_ATTENTION = 0.473, 0.25  # backward / forward 1.116 (LoRAFusion's layers), attention 3.0
LONGEST_GRID, LONGEST_SEQUENCE, SHORTEST = 65536, 16384, 128  # tokens over which planners' lines are fitted


class Efficiency(NamedTuple):
    """The numbers of one family of GPUs; all >= 0."""

    knots: tuple[float, ...]  # tokens, ascending from 0
    inverse: tuple[float, ...]  # of the matrices' efficiency between knots
    weights: float  # passes over 4 P / tp bytes
    whole: float  # passes over 2 h bytes a token
    cut: float  # passes over 2 (h + i) / tp bytes a token
    attention: float  # inverse efficiency
    sequence: float  # attention's operations a token beyond its length, in tokens
    row: float  # seconds a row and head
    adapters: float  # passes over what the adapted matrices read and write
    fixed: float  # seconds a layer and micro-batch
    logits: float  # passes over 2 V / tp bytes a token: the loss


class Known(NamedTuple):
    """A family's numbers and what a reader must know of them."""

    efficiency: Efficiency
    note: str


class Layer(NamedTuple):
    """What a layer takes on a tensor-parallel group, and its head as a multiple of the layer's part a token."""

    price: LayerPrice  # as planners see it
    view: Directions  # as it is played
    head: float
    difference: float  # of both, relative: the mean
    largest: float


def known_efficiency(gpu: GpuSpec) -> Known | None:
    """The numbers of this GPU's family; None where nobody measured one."""
    for family in json.loads(FILE.read_text(encoding="utf-8"))["families"]:
        if gpu.name in family["gpus"]:
            return Known(_read(family["coefficients"]), family["note"])
    return None


def efficient_layer(
    known: Efficiency, model: ModelSpec, cluster: ClusterSpec, tp: int, messages: Messages | None = None
) -> Layer:
    """Both views of a layer of this model, and its head."""
    line = tensor_line(cluster, tp, messages)
    message = line.byte * 2.0 * model.hidden
    curve = layer_curve(known, model, cluster.gpu, tp)
    curve = Curve(
        curve.knots,
        tuple(
            height + ALL_REDUCES * (line.start + message * knot)
            for height, knot in zip(curve.heights, curve.knots, strict=True)
        ),
        tuple(slope + ALL_REDUCES * message for slope in curve.slopes),
        curve.run,
        curve.row,
        curve.square,
    )
    price, apart = planner_price(curve)
    view = Directions(
        curve.scaled(FORWARD_LINEAR, FORWARD_ATTENTION), curve.scaled(1 - FORWARD_LINEAR, 1 - FORWARD_ATTENTION)
    )
    head = (head_seconds(known, model, cluster.gpu, tp) + message) / price.token
    return Layer(price, view, head, float(apart.mean()), float(apart.max()))


def layer_curve(known: Efficiency, model: ModelSpec, gpu: GpuSpec, tp: int) -> Curve:
    """Seconds of a layer without messages."""
    work = seconds_of(known, model, gpu, tp)
    rises = np.diff(known.knots) * work.matrices[:-1]
    flat = work.token * np.array(known.knots)
    heights = work.fixed + np.concatenate([[0.0], np.cumsum(rises)]) + flat
    slopes = work.matrices + work.token
    return Curve(known.knots, tuple(heights.tolist()), tuple(slopes.tolist()), 0.0, work.row, work.square)


class Work(NamedTuple):
    """Seconds of a layer: fixed, a token of its matrices between knots [k], a token of the rest, a row, a square."""

    fixed: float
    matrices: Array
    token: float
    row: float
    square: float


def seconds_of(known: Efficiency, model: ModelSpec, gpu: GpuSpec, tp: int) -> Work:
    """The parts of a layer's time."""
    operations, size = gpu.teraflops * 1e12, gpu.memory_gigabytes_per_second * 1e9
    weights, hidden = model.layer_parameters, model.hidden
    attention = ATTENTION_OPERATIONS * hidden / tp / operations
    elements = known.whole * 2 * hidden + known.cut * 2 * (hidden + model.intermediate) / tp
    return Work(
        known.fixed + known.weights * 4.0 * weights / tp / size,
        np.array(known.inverse) * 4.0 * weights / tp / operations,
        (elements + known.adapters * adapter_bytes(model, tp)) / size + known.sequence * attention,
        known.row * model.heads / tp,
        known.attention * attention,
    )


def adapter_bytes(model: ModelSpec, tp: int) -> float:
    """Bytes a token that the matrices of a layer read and write once, bfloat16, on one GPU of the group.

    Matrices cut by columns read whole rows and write a part; those cut by rows the other way round.
    """
    hidden, narrow = model.hidden, 2 * model.hidden * model.kv_heads / model.heads
    columns = 5 * hidden + (hidden + narrow + 2 * model.intermediate) / tp
    rows = (hidden + model.intermediate) / tp + 2 * hidden
    return 2.0 * (columns + rows)


def head_seconds(known: Efficiency, model: ModelSpec, gpu: GpuSpec, tp: int) -> float:
    """Seconds a token of the output head and the loss, forward plus backward, without messages."""
    matrix = known.inverse[-1] * 4.0 * model.hidden * model.vocabulary / tp / (gpu.teraflops * 1e12)
    return matrix + known.logits * 2.0 * model.vocabulary / tp / (gpu.memory_gigabytes_per_second * 1e9)


def planner_price(curve: Curve) -> tuple[LayerPrice, Array]:
    """The floor form of least relative squared error over a grid of the curve, and their relative differences."""
    points = [
        (float(length), float(tokens))
        for tokens in _powers(SHORTEST, LONGEST_GRID)
        for length in _powers(SHORTEST, min(tokens, LONGEST_SEQUENCE))
    ]
    lengths, tokens = (np.array(column) for column in zip(*points, strict=True))
    asked = Profile(0, lengths, tokens, lengths * tokens, np.ones_like(tokens), rows=tokens / lengths)
    profile = Profile(0, lengths, tokens, lengths * tokens, curve.of(asked))
    fit = fit_profile(profile)
    price = LayerPrice(fit.floor, fit.fixed, 0.0, fit.token, fit.square, FORWARD_LINEAR, FORWARD_ATTENTION)
    return price, np.abs(fit.errors(profile))


def _powers(low: int, high: int) -> Sequence[int]:
    return [low << step for step in range((high // low).bit_length())]


def _read(body: Mapping[str, Any]) -> Efficiency:
    """BadInput where a number is missing, negative or none."""
    numbers: dict[str, Any] = {name: sources.field(body, name) for name in Efficiency._fields}
    for name, value in numbers.items():
        each = value if isinstance(value, list) else [value]
        if not all(isinstance(number, int | float) and 0 <= number < float("inf") for number in each):
            raise BadInput(f"efficiency: {name} is {value!r}; finite numbers, 0 or more, are needed; fit it again")
    return Efficiency(**(numbers | {name: tuple(map(float, numbers[name])) for name in ("knots", "inverse")}))
