"""The price of one layer: four numbers for padded and packed micro-batches alike.

A layer of a micro-batch of N tokens with S2 = sum of squared attended lengths and R adapter runs takes max(floor, fixed
+ run R + token N + square S2) seconds, forward plus backward, all coefficients >= 0. The fixed part is paid once a
micro-batch, not once a sequence; padding and packing differ in N and S2 alone. Held-out error of this form on kernel
tables of A100: 3 %. It is monotone, never negative, and linear in the counts of sequences.

The forward share is a number for everything but attention and a smaller one for attention, neither above one half. Then
forward leaves its floor later than the whole does, so the backward rest is monotone too.
"""

from typing import NamedTuple

from lobra.plan import Shape


class LayerPrice(NamedTuple):
    """Seconds of one layer, forward plus backward, on one tensor-parallel group; and how much of that is forward."""

    floor: float
    fixed: float  # per micro-batch
    run: float  # per adapter run
    token: float
    square: float
    forward_linear: float  # share of all but attention that is forward; in (0, 1/2]
    forward_attention: float  # share of attention that is forward; in (0, forward_linear]
    gather: float = 0.0  # seconds to gather the layer's sharded weights twice; hidden behind it where it can


class StagePrice(NamedTuple):
    """Seconds of one stage, forward plus backward: max(floor, fixed + run R + token N + square S2)."""

    floor: float
    fixed: float
    run: float
    token: float
    square: float

    def seconds(self, runs: int, tokens: int, squares: int) -> float:
        """Seconds of a micro-batch."""
        return max(self.floor, self.fixed + self.run * runs + self.token * tokens + self.square * squares)


def stage_price(price: LayerPrice, layers: int, recomputed: int) -> StagePrice:
    """A stage of these layers; each of the recomputed ones runs forward once more.

    Whole and recomputed part are taken to leave the floor at the same point.
    """
    linear = layers + recomputed * price.forward_linear
    return StagePrice(
        max(linear * price.floor, layers * price.gather),
        linear * price.fixed,
        linear * price.run,
        linear * price.token,
        (layers + recomputed * price.forward_attention) * price.square,
    )


def directions(price: LayerPrice, layers: int, recomputed: int, shape: Shape, head: float = 0.0) -> tuple[float, float]:
    """Forward and backward seconds of such a stage; their sum is the price of the stage to the last bit.

    head: seconds of the output head for this micro-batch, forward plus backward, on the stage that has it. Asked a
    hundred thousand times a step, so it is written out: the whole as in stage_price, forward by its shares.
    """
    floor, fixed, run, token, square, linear, attention, gather = price
    base = fixed + run * shape.runs + token * shape.tokens
    squares = square * shape.squares
    times = layers + recomputed * linear
    line = times * base + (layers + recomputed * attention) * squares + head
    whole = max(line, times * floor, layers * gather)
    line = layers * (linear * base + attention * squares) + linear * head
    forward = max(line, layers * linear * floor, layers * gather / 2)
    backward = whole - forward
    return whole - backward, backward
