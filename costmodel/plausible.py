"""Whether a profile can be true: points that contradict their neighbours, speeds that no such device has, poor fits.

What no reader could repair is refused with the reason; what a reader must know is a warning.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.profile import Profile
from lobra.errors import BadInput
from lobra.spec import GpuSpec, ModelSpec

NEIGHBOURS = 4  # nearest in tokens
CONTRADICTION = 30.0  # times beyond what they allow
BELIEVED_SHARE = (0.01, 1.5)  # of a GPU's peak, at the largest micro-batch of a table
POOR = 0.15  # mean relative error of a fit


def refuse_contradictions(path: Path, profiles: Sequence[Profile]) -> None:
    """Refuse a point that is far off its neighbours: another unit, or another column.

    A neighbour with r times fewer tokens allows 1 to r^2 times its seconds, one with more correspondingly less.
    """
    for profile in profiles:
        for position, seconds in enumerate(profile.seconds):
            ratio = np.delete(profile.tokens[position] / profile.tokens, position)
            near = np.argsort(np.abs(np.log(ratio)), kind="stable")[:NEIGHBOURS]
            others, ratio = np.delete(profile.seconds, position)[near], ratio[near]
            above = seconds / (others * np.maximum(1.0, ratio**2))
            below = others * np.minimum(1.0, ratio**2) / seconds
            times = float(np.median(np.maximum(above, below)))
            if times > CONTRADICTION:
                raise BadInput(
                    f"profile {path}: tp {profile.tp}, {profile.tokens[position]:.0f} tokens in {seconds:.3g} s of a "
                    f"layer contradicts its neighbours {times:.0f} times over; is it off by a factor of a thousand?"
                )


def refuse_speed(path: Path, profiles: Sequence[Profile], model: ModelSpec, gpu: GpuSpec) -> None:
    """Refuse times of a layer that no GPU of this kind could need: seconds given as milliseconds, and the like."""
    low, high = (share * gpu.teraflops * 1e12 for share in BELIEVED_SHARE)
    for profile in profiles:
        largest = int(np.argmax(profile.tokens))
        work = 4 * model.layer_parameters * profile.tokens[largest] + 6 * model.hidden * profile.squares[largest]
        speed = float(work / profile.seconds[largest] / profile.tp)
        if not low <= speed <= high:
            raise BadInput(
                f"profile {path}: tp {profile.tp} computes {speed:.1e} operations a second and GPU, but {gpu.name} "
                f"peaks at {gpu.teraflops * 1e12:.1e}; is time in milliseconds of one layer?"
            )


def fit_warnings(fits: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the fitted rows of a source say about their profile."""
    told = []
    for fit in fits:
        if fit["mean_error"] > POOR:
            told.append(
                f"tp {fit['tp']}: the form misses its own points by {fit['mean_error']:.0%} on average (at most "
                f"{fit['largest_error']:.0%}); the machine was busy, or the points are not of one kind"
            )
        if fit["token_seconds"] == 0 and fit["square_seconds"] == 0:
            told.append(f"tp {fit['tp']}: the fitted time does not grow with the tokens; profile larger micro-batches")
    return told
