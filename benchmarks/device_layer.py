"""Seconds of one decoder layer, forward and backward apart, over micro-batches of many shapes: a device's calibration.

grid: 5 numbers of rows x 5 numbers of tokens, the points to fit on. mixed: packs of unequal lengths whose tokens and
squared lengths equal those of a uniform pack ("uniform"): whether these two numbers say it all. padded: the same
sequences as padded rows. tile: tokens around 256, where products jump; a stream is a multiple of 8, so are they.
adapters: 1 to 8 adapter runs in each back end. attention: the kernel alone, one length at a time.
"""

import csv
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from executor.adapters import Bank, create
from executor.attention import attend, choose
from executor.config import ModelConfig
from executor.data import build
from executor.mesh import Place
from executor.model import Stage, load_layer, make_input
from executor.settings import AttentionKind, LoraKind
from executor.weights import RandomWeights
from lobra.plan import MicroBatch
from lobra.spec import SequenceRef, Tenant

LLAMA3_8B = ModelConfig(
    layers=1, hidden=4096, intermediate=14336, heads=32, kv_heads=8, vocabulary=128256, head_size=128
)
TINY = ModelConfig(layers=1, hidden=32, intermediate=64, heads=4, kv_heads=2, vocabulary=64, head_size=8)
PLACE = Place(replica=0, stage=1, shard=0, tp=1, pp=3, layers=range(1))  # neither embedding nor head
TENANTS = tuple(Tenant(f"t{i}", 1, 1 << 20, rank=16) for i in range(8))
ROWS = (1, 2, 4, 8, 16)
UNIFORM, SHORT = (4, 8, 16), (2, 3, 4, 6)  # sequences of a uniform pack; how many times as many short ones in a mix
COLUMNS = (
    "kind", "lora", "attention", "rows", "width", "tokens", "useful", "squares", "runs", "repeat", "forward_seconds",
    "backward_seconds",
)  # fmt: skip

Tensor = torch.Tensor
Seconds = tuple[float, float]  # forward, backward


@dataclass(frozen=True)
class Scale:
    """How large the points are."""

    config: ModelConfig
    dtype: torch.dtype
    tokens: tuple[int, ...]  # of the grid, ascending
    pack: int  # tokens of the uniform and mixed packs
    padded: int  # the most tokens of a padded twin
    lengths: tuple[int, ...]  # of the attention alone
    warm: int = 2  # times before the first that counts
    repeats: int = 5


FULL = Scale(LLAMA3_8B, torch.bfloat16, (256, 512, 2048, 8192, 16384), 8192, 65536, tuple(512 << i for i in range(6)))
DRY = Scale(TINY, torch.float32, (16, 32, 64, 96, 128), 512, 2600, (16, 64), warm=0, repeats=2)


@dataclass(frozen=True)
class Point:
    """A micro-batch to time."""

    kind: str
    microbatch: MicroBatch
    lora: LoraKind = "loop"


def sequences(lengths: Sequence[int], owners: int = 1) -> list[SequenceRef]:
    """Dealt to tenants in blocks, so that there are as many adapter runs as owners."""
    return [SequenceRef(i * owners // len(lengths), i, length, length) for i, length in enumerate(lengths)]


def pack(lengths: Sequence[int], owners: int = 1) -> MicroBatch:
    """One row of all."""
    return MicroBatch((tuple(sequences(lengths, owners)),), sum(lengths))


def rows_of(lengths: Sequence[int]) -> MicroBatch:
    """A row for each, padded to the longest."""
    return MicroBatch(tuple((ref,) for ref in sequences(lengths)), max(lengths))


def mix(tokens: int, uniform: int, short: int) -> list[int]:
    """One long and `short` equal short lengths with the tokens and (nearly) squares of `uniform` equal ones.

    Long length x solves x^2 + (tokens - x)^2 / short = tokens^2 / uniform.
    """
    square = 1 + 1 / short
    root = math.sqrt((tokens / short) ** 2 - square * tokens**2 * (1 / short - 1 / uniform))
    longest = round((tokens / short + root) / square)
    each, more = divmod(tokens - longest, short)
    return [longest, *(each + (i < more) for i in range(short))]


def points(scale: Scale) -> Iterator[Point]:
    """All micro-batches of the profile."""
    for rows in ROWS:
        yield from (Point("grid", rows_of([tokens // rows] * rows)) for tokens in scale.tokens)
    for uniform in UNIFORM:
        yield Point("uniform", pack([scale.pack // uniform] * uniform))
        for times in SHORT:
            lengths = mix(scale.pack, uniform, times * uniform)
            yield Point("mixed", pack(lengths))
            if max(lengths) * len(lengths) <= scale.padded:
                yield Point("padded", rows_of(lengths))
    yield from (Point("tile", rows_of([tokens])) for tokens in range(232, 288, 8))
    for owners in (1, 2, 4, 8):
        for lora in ("loop", "grouped", "catmask"):
            yield Point("adapters", pack([scale.pack // 8] * 8, owners), lora)


class Layer:
    """One layer in the middle of a model, with eight adapters of rank 16."""

    def __init__(self, scale: Scale, device: torch.device) -> None:
        config, dtype = scale.config, scale.dtype
        self.device, self.config, self.dtype = device, config, dtype
        self.attention = choose("auto", dtype, device)
        self.weights = load_layer(RandomWeights(config), config, PLACE, 0, dtype=dtype, device=device)
        self.bank = Bank(tuple(create(tenant, config, PLACE, torch.float32, device) for tenant in TENANTS))

    def work(self, point: Point) -> tuple[Callable[[], Tensor], Tensor]:
        """What computes the layer's output, and its input."""
        stage = Stage(
            config=self.config,
            place=PLACE,
            layers=(self.weights,),
            embedding=None,
            norm=None,
            head=None,
            bank=self.bank,
            tensor=None,
            attention=self.attention,
            lora=point.lora,
            recompute=0,
        )
        names = [tenant.name for tenant in TENANTS]
        stream = build(point.microbatch, 1, names, None, self.config.vocabulary).to(self.device)
        given = make_input(stream, self.config, PLACE, step=0, dtype=self.dtype, context=None)
        x = torch.randn(stream.tokens, self.config.hidden, dtype=self.dtype, device=self.device, requires_grad=True)
        return lambda: stage.forward(x, given), x


Mark = float | torch.cuda.Event


def mark(device: torch.device) -> Mark:
    """Now, on the device's own time line."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(begin: Mark, end: Mark) -> float:
    """Seconds, once both are over."""
    if isinstance(end, float):
        return end - begin
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def timed(compute: Callable[[], Tensor], leaves: Sequence[Tensor], scale: Scale, device: torch.device) -> list[Seconds]:
    """Forward and backward seconds of every repeat."""
    marks = []
    slope = torch.randn_like(compute())
    for _ in range(scale.warm + scale.repeats):
        begun = mark(device)
        y = compute()
        turned = mark(device)
        y.backward(slope)
        marks.append((begun, turned, mark(device)))
        for leaf in leaves:
            leaf.grad = None
    return [(between(first, second), between(second, third)) for first, second, third in marks[scale.warm :]]


def attention_seconds(scale: Scale, device: torch.device, kind: AttentionKind, length: int) -> list[Seconds]:
    """The kernel alone on segments of one length."""
    config, tokens = scale.config, max(scale.lengths)
    heads = (config.heads, config.kv_heads, config.kv_heads)
    q, k, v = (
        torch.randn(tokens, count, config.head_size, dtype=scale.dtype, device=device, requires_grad=True)
        for count in heads
    )
    segments = [(start, length) for start in range(0, tokens, length)]
    return timed(lambda: attend(q, k, v, segments, kind), (q, k, v), scale, device)


def profile(scale: Scale, device: torch.device) -> list[dict[str, str | int | float]]:
    """A row for every point and repeat; points that do not fit in memory are left out."""
    layer, rows = Layer(scale, device), []
    for point in points(scale):
        try:
            compute, x = layer.work(point)
            seconds = timed(compute, (x,), scale, device)
        except torch.OutOfMemoryError:
            print(f"{point.kind}: {point.microbatch.shape.tokens} tokens do not fit in memory")
            continue
        rows += _rows(point.kind, point.lora, layer.attention, point.microbatch, seconds)
    for kind in dict.fromkeys(("loop", layer.attention)):
        for length in scale.lengths:
            alone = rows_of([length] * (max(scale.lengths) // length))
            rows += _rows("attention", "", kind, alone, attention_seconds(scale, device, kind, length))
    return rows


def _rows(
    kind: str, lora: str, attention: str, microbatch: MicroBatch, seconds: Sequence[Seconds]
) -> Iterator[dict[str, str | int | float]]:
    shape = microbatch.shape
    what = (kind, lora, attention, shape.rows, shape.width, shape.tokens, shape.useful, shape.squares, shape.runs)
    for repeat, pair in enumerate(seconds):
        yield dict(zip(COLUMNS, (*what, repeat, *pair), strict=True))


def write_table(path: Path, rows: Sequence[dict[str, str | int | float]]) -> None:
    """Write the profile as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
