"""The clock of the planner: when an undrained one-forward-one-backward pipeline has done its slots."""

from collections.abc import Sequence


def makespan(forward: Sequence[float], backward: Sequence[float], stages: int) -> float:
    """Seconds from the first forward to the last backward; slot m takes forward[m] and backward[m] on every stage.

    In round m a stage s begins slot m and then ends slot m - (stages - 1 - s), whose gradient came in the round before:
    the order of `lobra.schedule.one_forward_one_backward`, walked slot by slot. Any number of slots is legal.
    """
    slots = len(forward)
    free = [0.0] * stages  # when each stage has nothing to do
    sent = [0.0] * (stages + 1)  # when its latest gradient left; the last stage's loss is at hand
    for turn in range(slots + stages - 1 if slots else 0):
        ready = 0.0
        ended = turn - stages + 1
        for stage in range(stages):
            now = free[stage]
            if turn < slots:
                ready = now = max(ready, now) + forward[turn]
            if 0 <= ended < slots:
                came = sent[stage + 1]
                sent[stage] = now = max(came, now) + backward[ended]
            free[stage] = now
            ended += 1
    return free[0]
