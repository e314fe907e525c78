"""The closed form: a step without events, by the formula that solvers use."""

from collections.abc import Mapping

from lobra.errors import BadInput
from lobra.schedule import closed_form
from lobra.trace import Span
from sim.prices import Prices
from sim.rendezvous import WAY_OUT, Work


def closed_island(
    step: int, prices: Mapping[int, Prices], work: Work, origin: float = 0.0, log: list[Span] | None = None
) -> float:
    """Seconds until the last of these replicas has done its work; transfers are left out, spans there are none.

    Micro-batch m of replica i takes t(i, m), forward plus backward of its slowest stage. A replica alone takes
    closed_form(t(i, .), stages): their sum plus (stages - 1) times the longest (paper, Eq. 12). Shared micro-batches
    come first and start together, so a replica also waits at each for the last of the group: with c(i) the clock of
    replica i, all of group G start micro-batch m at max over G of c, and c(i) = start + t(i, m). The replica takes
    its closed form plus all it has waited. Groups that do not overlap wait only where noise or cuts make members
    unequal. A circle among micro-batches is refused; one that only the order of forward and backward on several
    stages closes is not seen here, only by the events.
    """
    del origin, log
    seconds = {replica: slowest_stage(costs) for replica, costs in prices.items()}
    waited = _meet(step, seconds, work)
    return max(closed_form(seconds[replica], costs.stages) + waited[replica] for replica, costs in prices.items())


def slowest_stage(prices: Prices) -> list[float]:
    """Forward plus backward of each micro-batch on the stage where that takes longest; [microbatch]."""
    stages = [
        [ahead + back for ahead, back in zip(*pair, strict=True)]
        for pair in zip(prices.forward, prices.backward, strict=True)
    ]
    return [max(column) for column in zip(*stages, strict=True)]


def _meet(step: int, seconds: Mapping[int, list[float]], work: Work) -> dict[int, float]:
    """What each replica waits for the others of its groups; BadInput where all wait in a circle."""
    clock, waited, position = (dict.fromkeys(seconds, 0.0), dict.fromkeys(seconds, 0.0), dict.fromkeys(seconds, 0))
    ahead: dict[tuple[tuple[int, ...], int], int] = {}  # members who stand before the n-th micro-batch of a group
    done: dict[tuple[tuple[int, ...], int], int] = {}  # micro-batches of a group that a replica has done
    ready = sorted(seconds)
    while ready:
        replica = ready.pop()
        if position[replica] == len(work[replica]) or not (group := work[replica][position[replica]].group):
            continue  # only its own are left: their sum is in the closed form
        number = done.get((group, replica), 0)
        ahead[group, number] = ahead.get((group, number), 0) + 1
        if ahead[group, number] < len(group):
            continue
        start = max(clock[member] for member in group)
        for member in group:
            waited[member] += start - clock[member]
            clock[member] = start + seconds[member][position[member]]
            position[member] += 1
            done[group, member] = number + 1
        ready.extend(group)
    for replica in sorted(seconds):
        rest = work[replica][position[replica] :]
        if rest and rest[0].group:
            raise BadInput(
                f"step {step}: the schedule stalls: replica {replica} waits to start its micro-batch "
                f"{position[replica]} with replicas {rest[0].group}; {WAY_OUT}"
            )
    return waited
