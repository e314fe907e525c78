"""Many steps at once: between two changes a fleet plays no step, it draws how long so many take.

A step's seconds are drawn from those of a few played batches, each as likely (a bootstrap); the sum of n such draws is
one multinomial draw, exact in distribution and as cheap for a million steps as for one. Streams are keyed by (seed,
number of the stretch). Steps inside a stretch are taken as equally long: where an arrival cuts it, the step under way
is ended first, for tenants join and leave between steps only.
"""

import math

import numpy as np

from sim.fleet.nouns import StepTime

ROUNDING = 1e-9  # of a step: an event this little after a step's end counts as at its end


def drawn_seconds(time: StepTime, steps: int, seed: int, number: int) -> float:
    """Seconds that so many steps take together, in the number-th stretch."""
    if len(time.seconds) == 1:
        return steps * time.seconds[0]
    stream = np.random.default_rng(np.random.SeedSequence([seed, number]))
    kinds = len(time.seconds)
    counts = stream.multinomial(steps, np.full(kinds, 1 / kinds))
    return math.fsum(count * seconds for count, seconds in zip(counts.tolist(), time.seconds, strict=True))


def steps_until(elapsed: float, step_seconds: float, at_most: int) -> int:
    """Steps that are over when the one under way is; one at least, so that no chain of events stops all progress."""
    return min(at_most, max(1, math.ceil(elapsed / step_seconds - ROUNDING)))
