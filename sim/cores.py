"""Cores that ranks share: while many of a node are busy all of them are slower, and they speed up as others finish.

On a machine with more ranks than cores an operation has no fixed duration. It has work, in seconds on its own, and
while k ranks of the node are busy it does that work at 1 / slowdown(k). Whenever an operation begins or ends, the work
left of all others is settled and the next end is computed anew: processor sharing, with a slowdown that was measured.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from simpy import Environment, Event

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan

Busy = Callable[[float], Event]  # from an operation's own seconds to the event of its end


@dataclass(frozen=True, slots=True)
class Sharing:
    """How much slower a rank computes with others of its node: measured alone and with all of them."""

    ranks: int  # of the node that was measured, all busy
    factors: Mapping[int, float]  # by tp: of all ranks busy

    def __post_init__(self) -> None:
        if self.ranks < 1 or any(not 1 <= factor < float("inf") for factor in self.factors.values()):
            raise BadInput(
                f"sharing: {self.ranks} ranks with factors {dict(self.factors)}; factors are finite, 1 or more"
            )

    def slowdown(self, tp: int, busy: int) -> float:
        """The factor of an operation of tp ranks while so many are busy, its own included; in proportion between."""
        factor = self.factors.get(tp, max(self.factors.values(), default=1.0))
        if self.ranks <= tp:
            return 1.0
        return 1 + (factor - 1) * max(0, busy - tp) / (self.ranks - tp)


@dataclass(slots=True, eq=False)
class _Operation:
    tp: int
    left: float  # seconds on its own
    over: Event


class Cores:
    """The cores of one node."""

    __slots__ = ("_environment", "_running", "_settled", "_sharing", "_turn")

    def __init__(self, environment: Environment, sharing: Sharing) -> None:
        self._environment, self._sharing = environment, sharing
        self._running: list[_Operation] = []
        self._settled = environment.now
        self._turn = 0  # of the latest change; alarms of earlier ones are stale

    def work(self, tp: int, seconds: float) -> Event:
        """An operation of tp ranks begins; the event of its end."""
        self._settle()
        operation = _Operation(tp, seconds, self._environment.event())
        self._running.append(operation)
        self._next()
        return operation.over

    def _slowdowns(self) -> list[float]:
        busy = sum(operation.tp for operation in self._running)
        return [self._sharing.slowdown(operation.tp, busy) for operation in self._running]

    def _settle(self) -> None:
        passed, self._settled = self._environment.now - self._settled, self._environment.now
        for operation, slowdown in zip(self._running, self._slowdowns(), strict=True):
            operation.left -= passed / slowdown

    def _next(self) -> None:
        """Set the alarm for the operation that ends first if nothing changes before."""
        self._turn += 1
        if self._running:
            pairs = zip(self._running, self._slowdowns(), strict=True)
            wait, position = min((max(0.0, each.left) * slow, n) for n, (each, slow) in enumerate(pairs))
            alarm = self._environment.timeout(wait)
            assert alarm.callbacks is not None  # it has not rung yet
            alarm.callbacks.append(partial(self._ring, self._turn, self._running[position]))

    def _ring(self, turn: int, operation: _Operation, alarm: Event) -> None:
        del alarm
        if turn != self._turn:
            return
        self._settle()
        self._running.remove(operation)
        operation.over.succeed()
        self._next()


def shared_cores(plan: DeploymentPlan, sharing: Sharing, environment: Environment) -> Callable[[int, int], Busy]:
    """For each (replica, stage) what lets it compute on the cores of its node."""
    nodes: dict[int, Cores] = {}

    def of(replica: int, stage: int) -> Busy:
        config, gpus = plan.replicas[replica].config, plan.replicas[replica].gpus
        node = plan.cluster.node_of(gpus[stage * config.tp])
        cores = nodes.setdefault(node, Cores(environment, sharing))
        return lambda seconds: cores.work(config.tp, seconds)

    return of
