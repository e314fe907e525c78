"""What messages cost on a cluster: curves fitted to measurements where they apply, a formula of bandwidth elsewhere.

A curve goes through knots of bytes and never falls; its slope beyond the last knot goes on, so larger messages than
were timed are extrapolated by bandwidth. Groups of a size between two measured ones lie between their curves. Planners
need something linear: the line of least relative error from 1 MiB on, told beside the curve.

Curves of collectives inside a node hold for the GPU and link that they were measured on, unchanged. Those between nodes
belong to the network that they were measured on, which is not that of the named clusters, so they are used only where
asked for. Everything else is latency and bandwidth (`costmodel.communication`).
"""

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from costmodel import communication, sources
from costmodel.knots import Curve
from lobra.errors import BadInput
from lobra.spec import ClusterSpec, Link

Kind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CHOICES = ("auto", "measured", "formula")
PAIR = 2  # members of a point-to-point message
MIB, GIB = 2.0**20, 2.0**30
FILE = sources.FOLDER / "collectives.json"  # JSON, because it is read for every cost model: YAML takes 0.1 s


class Line(NamedTuple):
    """Seconds of a message as planners see them: start + byte * bytes."""

    start: float
    byte: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of message among so many GPUs."""

    curve: Curve  # over bytes
    line: Line
    largest: float  # bytes that were timed

    def seconds(self, size: float) -> float:
        """Seconds of a message of so many bytes."""
        return self.curve.seconds(0, 0, size, 0)


Curves = Mapping[tuple[Kind, int], Measured]  # by kind and members


@dataclass(frozen=True, slots=True)
class Messages:
    """Prices of messages; without curves, the formula alone. Sizes: see `costmodel.communication`."""

    inside: Curves = field(default_factory=dict)  # within a node
    across: Curves = field(default_factory=dict)  # over the network between nodes
    source: str = ""

    def seconds(self, kind: Kind, cluster: ClusterSpec, size: float, members: int, *, crosses: bool) -> float:
        """Seconds of one message of so many bytes among so many members; nothing for one member."""
        if members <= 1:
            return 0.0
        around = self._around(kind, members, crosses)
        if around is None:
            return _formula(kind, _link(cluster, crosses), size, members)
        low, high, share = around
        if not share:  # asked for every transfer of a simulation
            return low.seconds(size)
        return (1 - share) * low.seconds(size) + share * high.seconds(size)

    def line(self, kind: Kind, cluster: ClusterSpec, members: int, *, crosses: bool) -> Line:
        """The same as a line of bytes."""
        if members <= 1:
            return Line(0.0, 0.0)
        around = self._around(kind, members, crosses)
        if around is None:
            link = _link(cluster, crosses)
            start = _formula(kind, link, 0.0, members)
            return Line(start, (_formula(kind, link, GIB, members) - start) / GIB)
        low, high, share = around
        return Line(*((1 - share) * one + share * other for one, other in zip(low.line, high.line, strict=True)))

    def note(self, kind: Kind, members: int, *, crosses: bool, size: float = 0.0) -> str:
        """What the price of such a message rests on; size: bytes of the largest one that may be asked for."""
        what = f"{kind.replace('_', '-')} {'between nodes' if crosses else 'inside a node'}"
        around = self._around(kind, members, crosses)
        if around is None:
            return f"{what} from link bandwidth, not measured"
        timed = min(each.largest for each in around[:2])
        beyond = f"; beyond {timed / MIB:.0f} MiB extrapolated" if size > timed else ""
        return f"{what} measured ({self.source}){beyond}"

    def _around(self, kind: Kind, members: int, crosses: bool) -> tuple[Measured, Measured, float] | None:
        """The curves of the group sizes next to this one, and how far it is from the first; None: not measured."""
        curves = self.across if crosses else self.inside
        if (found := curves.get((kind, members))) is not None:
            return found, found, 0.0
        sizes = sorted(size for known, size in curves if known == kind)
        place = bisect_right(sizes, members)
        if not 0 < place < len(sizes):
            return None
        low, high = sizes[place - 1], sizes[place]
        return curves[kind, low], curves[kind, high], (members - low) / (high - low)


def messages_of(cluster: ClusterSpec, choice: str = "auto") -> Messages:
    """The prices of messages on a cluster.

    choice: auto is curves inside nodes where the GPU and its link are those that were measured; measured takes the
    curves between nodes too, of another network than the cluster's; formula takes none. BadInput for measured where
    there are no curves.
    """
    if choice not in CHOICES:
        raise BadInput(sources.nearest("messages", choice, CHOICES))
    body = None if choice == "formula" else _entry(cluster)
    if body is None:
        if choice == "measured":
            raise BadInput(
                f"messages: nothing was measured on GPU '{cluster.gpu.name}' with this link inside a node; use "
                "messages=auto"
            )
        return Messages()
    inside, across = (_curves(body, nodes) for nodes in ("inside", "across"))
    return Messages(inside, across if choice == "measured" else {}, str(sources.field(body, "device")))


def _entry(cluster: ClusterSpec) -> Mapping[str, Any] | None:
    for body in sources.field(json.loads(FILE.read_text(encoding="utf-8")), "hardware"):
        link = Link(**sources.field(body, "link"))
        if cluster.gpu.name in sources.field(body, "gpus") and cluster.intra_node == link:
            found: Mapping[str, Any] = body
            return found
    return None


def _curves(body: Mapping[str, Any], place: str) -> dict[tuple[Kind, int], Measured]:
    """Curves by kind and members; BadInput for a kind that there is not, and for a curve that could fall."""
    found: dict[tuple[Kind, int], Measured] = {}
    for row in sources.field(body, "curves"):
        kind, members = sources.field(row, "kind"), int(sources.field(row, "members"))
        if kind not in KINDS:
            raise BadInput(sources.nearest("collectives: kind", str(kind), KINDS))
        if sources.field(row, "place") != place:
            continue
        knots, heights, slopes = (
            tuple(map(float, sources.field(row, name))) for name in ("knots", "height_seconds", "byte_seconds")
        )
        line = sources.field(row, "line")
        start, byte = (float(sources.field(line, name)) for name in ("start_seconds", "byte_seconds"))
        found[kind, members] = Measured(
            Curve(knots, heights, slopes), Line(start, byte), float(sources.field(row, "bytes")[1])
        )
    return found


def _link(cluster: ClusterSpec, crosses: bool) -> Link:
    return cluster.inter_node if crosses else cluster.intra_node


def _formula(kind: Kind, link: Link, size: float, members: int) -> float:
    match kind:
        case "all_reduce":
            return communication.all_reduce_seconds(link, size, members)
        case "all_gather" | "reduce_scatter":
            return communication.all_gather_seconds(link, size, members)
        case "all_to_all":
            return communication.all_to_all_seconds(link, size, members)
        case "point_to_point":
            return communication.point_to_point_seconds(link, size)
