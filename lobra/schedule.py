"""One-forward-one-backward: the score that simulator and executor both walk, and its closed form."""

from collections.abc import Iterable, Iterator
from typing import Literal

from lobra.errors import BadInput

Direction = Literal["forward", "backward"]


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> Iterator[tuple[Direction, int]]:
    """The operations of one stage in order: warm-up forwards, alternation, cool-down backwards (PipeDream-flush).

    Any number of micro-batches is legal, fewer than stages and none included.
    """
    warmup = min(stages - 1 - stage, microbatches)
    for microbatch in range(warmup):
        yield "forward", microbatch
    for microbatch in range(warmup, microbatches):
        yield "forward", microbatch
        yield "backward", microbatch - warmup
    for microbatch in range(microbatches - warmup, microbatches):
        yield "backward", microbatch


def closed_form(microbatch_seconds: Iterable[float], stages: int) -> float:
    """Seconds of a pipeline whose stages take these times, forward plus backward (paper, Eq. 12).

    Equal micro-batches: exact, (m + stages - 1) t. Ragged ones, costliest first: an estimate, no bound.
    """
    total = longest = 0.0
    for seconds in microbatch_seconds:
        total += seconds
        longest = max(longest, seconds)
    return total + (stages - 1) * longest


def even_cut(layers: int, stages: int) -> tuple[int, ...]:
    """First layer of each stage: sizes differ by one at most, the remainder goes to the first stages."""
    if not 1 <= stages <= layers:
        raise BadInput(f"pp {stages} cannot cut {layers} layers: a stage needs at least one; use pp <= {layers}")
    size, rest = divmod(layers, stages)
    return tuple(stage * size + min(stage, rest) for stage in range(stages))


def stage_sizes(layers: int, stages: int, cut: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Layers of each stage under a cut (first layer of each stage), or under the even one."""
    starts = cut if cut is not None else even_cut(layers, stages)
    ends = (*starts[1:], layers)
    return tuple(end - start for start, end in zip(starts, ends, strict=True))
