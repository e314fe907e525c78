"""One batch of one group into as few packs as possible, and how full each of them is then made."""

from collections.abc import Sequence

from policies.adaptive.nouns import Pack, Room, Sample

NODES = 100  # placements that the exact search may try before it gives up


class Bins:
    """Packs in the making: contents, shares by adapter, widths."""

    __slots__ = ("contents", "room", "shares", "widths")

    def __init__(self, room: Room, number: int = 0) -> None:
        self.room = room
        self.contents: list[list[Sample]] = [[] for _ in range(number)]
        self.shares: list[dict[int, int]] = [{} for _ in range(number)]
        self.widths: list[int] = [0] * number

    def grown(self, sample: Sample) -> list[int]:
        """The width of each pack with this sample more, as `Room.width` says; of one it does not fit, any too wide."""
        adapter, length, room, tile = sample.adapter, sample.length, self.room.tokens, self.room.tile
        found = []
        for width, shares in zip(self.widths, self.shares, strict=True):
            if width + length >= room + tile:
                found.append(width + length)
                continue
            share = shares.get(adapter, 0)
            after = -(-(share + length) // tile) * tile
            before = -(-share // tile) * tile
            if after > room:
                after = max(room, share + length)
                before = min(before, max(room, share))
            found.append(width + after - before)
        return found

    def put(self, place: int, sample: Sample, width: int) -> None:
        """Add a sample; `width` is what `grown` said of this pack."""
        self.contents[place].append(sample)
        self.shares[place][sample.adapter] = self.shares[place].get(sample.adapter, 0) + sample.length
        self.widths[place] = width

    def pop(self, place: int, width: int) -> None:
        """Take the latest sample out; `width` is what it was before."""
        sample = self.contents[place].pop()
        self.shares[place][sample.adapter] -= sample.length
        self.widths[place] = width

    def open(self) -> int:
        """A new pack."""
        self.contents.append([])
        self.shares.append({})
        self.widths.append(0)
        return len(self.widths) - 1

    def packs(self) -> list[Pack]:
        """All of them, widest first; samples by adapter, batch and number."""
        order = sorted(range(len(self.widths)), key=lambda place: -self.widths[place])
        return [tuple(sorted(self.contents[place], key=lambda s: (s.adapter, s.batch, s.number))) for place in order]


def least_packs(samples: Sequence[Sample], room: Room) -> int:
    """A lower bound: no packing has fewer packs."""
    shares: dict[int, int] = {}
    for sample in samples:
        shares[sample.adapter] = shares.get(sample.adapter, 0) + sample.length
    return -(-sum(map(room.rounded, shares.values())) // room.tokens)


def fewest(samples: Sequence[Sample], room: Room) -> list[Pack]:
    """As few packs as best-fit decreasing needs, or fewer where a short exact search finds that; widest first.

    No sample may be longer than the room.
    """
    order = longest_first(samples)
    found = _best_fit(order, room)
    while len(order) <= NODES and len(found.widths) > least_packs(samples, room):
        better = _exact(order, room, len(found.widths) - 1)
        if better is None:
            break
        found = better
    return found.packs()


def even(samples: Sequence[Sample], room: Room, number: int) -> list[Pack] | None:
    """So many packs of about the same width, or None where that does not come out; widest first."""
    bins = Bins(room, number)
    for sample in longest_first(samples):
        grown = bins.grown(sample)
        width = min(grown)
        if width > room.tokens:
            return None
        bins.put(grown.index(width), sample, width)
    return bins.packs()


def longest_first(samples: Sequence[Sample]) -> list[Sample]:
    """By length, then adapter, batch and number."""
    return sorted(samples, key=lambda s: (-s.length, s.adapter, s.batch, s.number))


def _best_fit(order: Sequence[Sample], room: Room) -> Bins:
    bins = Bins(room)
    for sample in order:
        grown = bins.grown(sample)
        fitting = [width for width in grown if width <= room.tokens]
        if fitting:
            width = max(fitting)
            bins.put(grown.index(width), sample, width)
        else:
            bins.put(bins.open(), sample, room.rounded(sample.length))
    return bins


def _exact(order: Sequence[Sample], room: Room, number: int) -> Bins | None:
    """Depth first, fullest pack first; None where no packing was found within NODES placements."""
    bins = Bins(room, number)
    nodes = 0

    def place_from(depth: int) -> bool:
        nonlocal nodes
        if depth == len(order):
            return True
        sample = order[depth]
        options: list[tuple[int, int]] = []
        seen: set[tuple[int, int]] = set()
        for place, (width, grown) in enumerate(zip(bins.widths, bins.grown(sample), strict=True)):
            if (
                grown <= room.tokens and (width, grown) not in seen
            ):  # of equally wide packs one is enough, nearly always
                seen.add((width, grown))
                options.append((-grown, place))
        for minus_width, place in sorted(options):
            nodes += 1
            if nodes > NODES:
                return False
            before = bins.widths[place]
            bins.put(place, sample, -minus_width)
            if place_from(depth + 1):
                return True
            bins.pop(place, before)
        return False

    return bins if place_from(0) else None
