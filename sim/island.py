"""An island: replicas that meet each other within a step, played in one SimPy environment."""

from collections.abc import Callable, Mapping, Sequence

from simpy import Environment

from lobra.errors import BadInput
from lobra.trace import Span
from sim.cores import Busy
from sim.prices import Prices
from sim.rendezvous import WAY_OUT, Meeting, Work, meetings
from sim.replica import Stage, stages_of

NAMED = 4  # waiting stages that the report of a stall names; more would hide the first


def play_island(
    step: int,
    prices: Mapping[int, Prices],
    work: Work,
    origin: float,
    log: list[Span] | None,
    *,
    cores: Callable[[Environment], Callable[[int, int], Busy]] | None = None,
) -> float:
    """Seconds until the last of its replicas has done its work. BadInput where they wait for each other for ever.

    cores: makes those that the ranks share, if they do.

    Spans are appended replica by replica, stage by stage, in the order of the schedule.
    """
    environment = Environment()
    shared = None if cores is None else cores(environment)
    attended = meetings(environment, list(prices), work)
    stages = [
        stage
        for replica, costs in prices.items()
        for stage in stages_of(environment, replica, costs, attended[replica], shared)
    ]
    logs: list[list[Span] | None] = [None if log is None else [] for _ in stages]
    finished = play_stages(environment, stages, logs, origin)
    if not finished:
        raise BadInput(stall(step, [meeting for list_ in attended.values() for meeting in list_ if meeting]))
    if log is not None:
        for part in logs:
            log.extend(part or ())
    return environment.now


def play_stages(
    environment: Environment, stages: Sequence[Stage], logs: Sequence[list[Span] | None], origin: float
) -> bool:
    """Run the stages until nothing happens any more; False where one of them still waits then.

    Nothing depends on the order of the stages: what happens at the same time happens on different stages.
    """
    running = [
        environment.process(stage.play(environment, origin, log)) for stage, log in zip(stages, logs, strict=True)
    ]
    environment.run()
    return not any(process.is_alive for process in running)


def stall(step: int, attended: Sequence[Meeting]) -> str:
    """Who waits for whom, in one line."""
    waiting = sorted({(*entry, meeting.group) for meeting in attended for entry in meeting.waiting()})
    named = "; ".join(
        f"replica {replica} waits on stage {stage} to start the {kind} of its micro-batch {microbatch} "
        f"with replicas {group}"
        for replica, stage, kind, microbatch, group in waiting[:NAMED]
    )
    more = f"; and {len(waiting) - NAMED} more" if len(waiting) > NAMED else ""
    return f"step {step}: the schedule stalls: {named}{more}; {WAY_OUT}"
