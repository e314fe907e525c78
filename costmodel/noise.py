"""How much a step varies: jitter and stragglers out of the repeats of a profile, as the simulator's noise takes them.

Every point of `samples.csv` was timed several times. A repeat far above its point's median is a straggler; what the
others differ by is jitter, pooled over points as a standard deviation of the logarithm. The simulator draws forward and
backward apart, and their sum varies less than each, so the jitter of one operation is larger than that of the whole.

Limits: repeats of one session, so what differs between days or machines is not in it (that is the systematic term of
`uncertainty`). The simulator slows a straggler for a whole step while a profile sees single micro-batches; steps of
many micro-batches therefore get somewhat too many slow seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from costmodel.samples import Samples, Timed
from costmodel.sources import field
from lobra.errors import BadInput

SLOW = 1.5  # times the median of its point: the least that counts as a straggler
UNLIKELY = 4.0  # standard deviations of the jitter: so far out it is none
NORMAL_MEDIAN = 0.6745  # of the absolute value of a standard normal
LEAST_POINTS = 5  # with at least two repeats each


@dataclass(frozen=True, slots=True)
class StepNoise:
    """What the simulator's noise needs."""

    jitter_sigma: float  # of the logarithm, of every operation
    straggler_probability: float
    straggler_factor: float
    points: int  # of the profile, repeated at least twice
    repeats: int  # of all of them


def fit_noise(samples: Samples) -> StepNoise:
    """Of the points that were timed alone; BadInput where too few were repeated."""
    points = [each for each in samples.timed if not each.crowded and len(each.repeated) > 1]
    if len(points) < LEAST_POINTS:
        raise BadInput(
            f"noise: {len(points)} points were timed more than once; at least {LEAST_POINTS} are needed: profile with "
            "grid.repeats=3 or more"
        )
    limit = max(SLOW, float(np.exp(UNLIKELY * _typical(points))))
    slow, squares, freedom = list[float](), 0.0, 0
    for each in points:
        ratios = np.array(each.repeated) / median(each.repeated)
        slow += ratios[ratios > limit].tolist()
        usual = np.log(ratios[ratios <= limit])
        squares += float(((usual - usual.mean()) ** 2).sum())
        freedom += len(usual) - 1
    repeats = sum(len(each.repeated) for each in points)
    ahead = median(each.forward / each.seconds for each in points)
    whole = (squares / freedom) ** 0.5 if freedom else 0.0
    sigma = whole / (ahead**2 + (1 - ahead) ** 2) ** 0.5
    factor = sum(slow) / len(slow) if slow else 1.0
    return StepNoise(round(sigma, 4), round(len(slow) / repeats, 4), round(factor, 3), len(points), repeats)


def noise_row(noise: StepNoise) -> dict[str, Any]:
    """As it stands in a source file."""
    return {
        "jitter_sigma": noise.jitter_sigma,
        "straggler_probability": noise.straggler_probability,
        "straggler_factor": noise.straggler_factor,
        "points": noise.points,
        "repeats": noise.repeats,
    }


def read_noise(source: Mapping[str, Any]) -> StepNoise:
    """What `lobra fit` wrote; BadInput where the file has none, or none that could be played."""
    row = source.get("step_noise")
    if row is None:
        raise BadInput("cost file: it holds no step_noise; profile with grid.repeats=3 or more and fit again")
    values = [field(row, name) for name in ("jitter_sigma", "straggler_probability", "straggler_factor")]
    sigma, probability, factor = (float(value) for value in values)
    if not (0 <= sigma < float("inf") and 0 <= probability <= 1 and 1 <= factor < float("inf")):
        raise BadInput(f"cost file: step_noise is {values}; it must be jitter >= 0, probability in [0, 1], factor >= 1")
    return StepNoise(sigma, probability, factor, int(row.get("points", 0)), int(row.get("repeats", 0)))


def _typical(points: Sequence[Timed]) -> float:
    """The jitter that stragglers cannot move: from the median distance of two repeats."""
    distances = [
        abs(float(np.log(one / other)))
        for each in points
        for one, other in zip(each.repeated, each.repeated[1:], strict=False)
    ]
    return float(median(distances)) / NORMAL_MEDIAN / 2**0.5
