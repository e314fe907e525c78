"""A replica: its pipeline stages, each a SimPy process that walks the one-forward-one-backward order."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from simpy import Environment, Event

from lobra.schedule import one_forward_one_backward
from lobra.trace import Span
from sim.cores import Busy
from sim.mailbox import Mailbox
from sim.prices import Prices
from sim.rendezvous import Meeting


@dataclass(frozen=True, slots=True)
class Lane:
    """One direction through a stage: what it costs, where input comes from and where output goes."""

    seconds: list[float]  # [microbatch]
    inbox: Mailbox | None  # None: the input is at hand (the first stage's data, the last stage's loss)
    outbox: Mailbox | None


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of one replica, ready to play a step."""

    replica: int
    stage: int
    stages: int
    forward: Lane
    backward: Lane
    transfer: list[float]  # [microbatch]
    meetings: Sequence[Meeting | None]  # [microbatch]
    busy: Busy | None = None  # None: its devices are its own, so an operation takes its seconds

    def play(self, environment: Environment, origin: float, log: list[Span] | None) -> Generator[Event, Any, None]:
        """Do each operation as soon as its input has arrived and the others of its group are there too.

        Spans go to the log in the order of the schedule, origin added to their times; a transfer is logged by the
        stage that receives it.
        """
        replica, stage = self.replica, self.stage
        spend = environment.timeout if self.busy is None else self.busy
        for kind, microbatch in one_forward_one_backward(stage, self.stages, len(self.meetings)):
            lane = self.forward if kind == "forward" else self.backward
            if lane.inbox is not None:
                message = lane.inbox.sent(microbatch)
                if message is None:
                    yield lane.inbox.news()
                    message = lane.inbox.sent(microbatch)
                    assert message is not None  # messages are sent in the order in which they are awaited
                sent = yield message
                if log is not None and (seconds := self.transfer[microbatch]) > 0:
                    log.append(Span(replica, stage, microbatch, "transfer", origin + sent, origin + (sent + seconds)))
            meeting = self.meetings[microbatch]
            if meeting is not None:
                yield meeting.join(kind, stage, replica, microbatch)
            start = environment.now
            yield spend(lane.seconds[microbatch])
            if log is not None:
                log.append(Span(replica, stage, microbatch, kind, origin + start, origin + environment.now))
            if lane.outbox is not None:
                lane.outbox.send(self.transfer[microbatch])


def stages_of(
    environment: Environment,
    replica: int,
    prices: Prices,
    meetings: Sequence[Meeting | None],
    cores: Callable[[int, int], Busy] | None = None,
) -> list[Stage]:
    """The stages of one replica with their mailboxes between them; cores: of (replica, stage), where ranks share."""
    last = prices.stages - 1
    ahead = [Mailbox(environment) for _ in range(last)]  # activations, from stage s to s + 1
    back = [Mailbox(environment) for _ in range(last)]  # gradients, from stage s + 1 to s
    return [
        Stage(
            replica,
            stage,
            prices.stages,
            Lane(
                prices.forward[stage], ahead[stage - 1] if stage > 0 else None, ahead[stage] if stage < last else None
            ),
            Lane(prices.backward[stage], back[stage] if stage < last else None, back[stage - 1] if stage > 0 else None),
            prices.transfer,
            meetings,
            None if cores is None else cores(replica, stage),
        )
        for stage in range(prices.stages)
    ]
