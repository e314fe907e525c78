"""One stage's part of a step: the score of lobra.schedule played with real activations.

Micro-batches may differ in length and be any number, none included; every rank knows all shapes from the plan. A send
is fused with the receive that follows it where both concern the same neighbour (F then B: the stage after; B then F:
the stage before), in the order of Megatron-LM, which cannot deadlock. Receives are posted just in time; messages carry
no tags, since between two ranks activations only go down and gradients only come up. Sends are not waited for until
they must be: a stage goes on while its message travels.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from executor.mesh import Group, Mesh
from executor.model import Input, Stage
from executor.timing import StepClock
from lobra.schedule import Direction, one_forward_one_backward

Tensor = torch.Tensor
Peer = tuple[int, Group]  # global rank, group of the pair


class _Wire:
    """Messages to the neighbours; keeps what is still being sent."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype = dtype
        self._device = device
        self._sending: list[tuple[dist.Work, Tensor]] = []

    def exchange(self, peer: Peer, sent: Tensor | None, shape: tuple[int, int] | None) -> Tensor | None:
        """Send a tensor, receive one of that shape, or both; returns once the received one is here."""
        rank, group = peer
        self._sending = [(work, kept) for work, kept in self._sending if not work.is_completed()]
        operations = []
        if sent is not None:
            operations.append(dist.P2POp(dist.isend, sent, rank, group))
        received = None
        if shape is not None:
            received = torch.empty(shape, dtype=self._dtype, device=self._device)
            operations.append(dist.P2POp(dist.irecv, received, rank, group))
        works = dist.batch_isend_irecv(operations)
        if received is not None:
            works.pop().wait()  # the receive is the last; where the back end joins both, it is the only one
        if sent is not None:
            self._sending += [(work, sent) for work in works]
        return received

    def close(self) -> None:
        """Wait for everything sent."""
        for work, _ in self._sending:
            work.wait()
        self._sending = []


class _Player:
    """Runs forwards and backwards of one stage and keeps the graphs between them."""

    def __init__(self, stage: Stage, inputs: Sequence[Input], clock: StepClock) -> None:
        self.stage = stage
        self.inputs = inputs
        self.clock = clock
        self.open: dict[int, tuple[Tensor | None, Tensor]] = {}
        self.losses: list[Tensor] = []

    def forward(self, number: int, x: Tensor | None) -> Tensor:
        """Activations for the stage after; on the last stage the losses."""
        with self.clock("forward", number):
            if x is not None:
                x.requires_grad_()
            y = self.stage.forward(x, self.inputs[number])
        self.open[number] = x, y
        if self.stage.place.last:
            self.losses.append(y.detach())
        return y.detach()

    def backward(self, number: int, slope: Tensor | None) -> Tensor | None:
        """Gradient for the stage before; None on the first stage."""
        x, y = self.open.pop(number)
        with self.clock("backward", number):
            if y.requires_grad:  # on a first stage without any adapter nothing depends on a parameter
                # the gradient of a sum: given one for y itself, torch imports a second's worth of symbolic shapes first
                (y.sum() if slope is None else (y * slope).sum()).backward()  # type: ignore[no-untyped-call]
        return None if x is None else x.grad


def run(stage: Stage, mesh: Mesh, inputs: Sequence[Input], clock: StepClock, dtype: torch.dtype) -> list[Tensor]:
    """Play a step's micro-batches; adapter gradients add up in their leaves. The last stage returns token losses."""
    place = stage.place
    score = list(one_forward_one_backward(place.stage, place.pp, len(inputs)))
    device = stage.layers[0].attention_norm.device
    player, wire = _Player(stage, inputs, clock), _Wire(dtype, device)
    ready: Tensor | None = None
    for position, (direction, number) in enumerate(score):
        source, target = _peers(mesh, direction)
        if source is not None and ready is None:
            with clock("transfer", number):
                ready = wire.exchange(source, None, _shape(stage, inputs[number]))
        taken, ready = ready, None
        made = player.forward(number, taken) if direction == "forward" else player.backward(number, taken)
        if target is None:
            continue
        turn = score[position + 1] if position + 1 < len(score) else None
        if turn is not None and turn[0] != direction:  # what comes next comes from whom this goes to
            with clock("transfer", turn[1]):
                ready = wire.exchange(target, made, _shape(stage, inputs[turn[1]]))
        else:
            wire.exchange(target, made, None)
    wire.close()
    return player.losses


def _peers(mesh: Mesh, direction: Direction) -> tuple[Peer | None, Peer | None]:
    """From whom the operation's input comes, to whom its result goes."""
    return (mesh.before, mesh.after) if direction == "forward" else (mesh.after, mesh.before)


def _shape(stage: Stage, given: Input) -> tuple[int, int]:
    return given.own.stop - given.own.start, stage.config.hidden
