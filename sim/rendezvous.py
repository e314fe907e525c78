"""Rendezvous: replicas that share a micro-batch start each of its operations together."""

from collections.abc import Iterator, Sequence

from simpy import Environment, Event

from lobra.plan import MicroBatch

Work = Sequence[Sequence[MicroBatch]]

WAY_OUT = "give a shared micro-batch the same position on all its members"


class Meeting:
    """The rendezvous of one shared micro-batch: on every stage, for forward and for backward, nobody starts alone.

    Members start together; each takes its own seconds. Where groups overlap they may wait in a circle, with several
    stages even if all order what they share alike: a replica's warm-up decides which backward stands before which
    forward. A micro-batch that has the same position on all its members never leads to that, since each stage then
    walks a part of one and the same order.
    """

    __slots__ = ("_environment", "_gatherings", "group")

    def __init__(self, environment: Environment, group: tuple[int, ...]) -> None:
        self.group = group
        self._environment = environment
        self._gatherings: dict[tuple[str, int], tuple[list[tuple[int, int]], Event]] = {}

    def join(self, kind: str, stage: int, replica: int, microbatch: int) -> Event:
        """An event that happens when the last member has joined for this operation."""
        key = (kind, stage)
        if key not in self._gatherings:
            self._gatherings[key] = ([], self._environment.event())
        present, everybody = self._gatherings[key]
        present.append((replica, microbatch))
        if len(present) == len(self.group):
            everybody.succeed()
        return everybody

    def waiting(self) -> Iterator[tuple[int, int, str, int]]:
        """Who waits in vain: (replica, stage, kind, micro-batch), in no particular order."""
        for (kind, stage), (present, everybody) in self._gatherings.items():
            if not everybody.triggered:
                for replica, microbatch in present:
                    yield replica, stage, kind, microbatch


def islands(work: Work) -> list[list[int]]:
    """Replicas that meet before the synchronisation, directly or through others; ascending, by their first member.

    Replicas that share nothing are islands of one: they can be played one after another.
    """
    home = list(range(len(work)))
    for replica in range(len(work)):
        for microbatch in work[replica]:
            if not microbatch.group:
                break  # shared micro-batches stand first
            for member in microbatch.group:
                _join(home, replica, member)
    members: dict[int, list[int]] = {}
    for replica in range(len(work)):
        members.setdefault(_find(home, replica), []).append(replica)
    return list(members.values())


def _find(home: list[int], replica: int) -> int:
    while home[replica] != replica:
        home[replica] = home[home[replica]]
        replica = home[replica]
    return replica


def _join(home: list[int], one: int, other: int) -> None:
    low, high = sorted((_find(home, one), _find(home, other)))
    home[high] = low


def meetings(environment: Environment, members: Sequence[int], work: Work) -> dict[int, list[Meeting | None]]:
    """For each member and each of its micro-batches the meeting it takes part in, or None where it works alone.

    The n-th micro-batch of a group is the same for every member of the group, wherever it stands in their work.
    """
    held: dict[tuple[tuple[int, ...], int], Meeting] = {}
    attended: dict[int, list[Meeting | None]] = {}
    for replica in members:
        seen: dict[tuple[int, ...], int] = {}
        attended[replica] = []
        for microbatch in work[replica]:
            group = microbatch.group
            if not group:
                attended[replica].append(None)
                continue
            number = seen[group] = seen.get(group, -1) + 1
            if (group, number) not in held:
                held[group, number] = Meeting(environment, group)
            attended[replica].append(held[group, number])
    return attended
