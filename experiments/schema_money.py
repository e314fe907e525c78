"""Mutable twins of what questions about money and reliability are asked with; durations as in `schema_whatif`."""

from dataclasses import dataclass, field


@dataclass
class Spotting:
    """How spot nodes are lost: assumptions, no provider promises them."""

    mtbf: str = "2h"  # between losses of one node, on average
    notice: str | None = None  # before a loss; none given: as the price file says, else no notice
    checkpoint: str = "5s"  # all adapters and optimiser states written
    restart: str = "2m"  # another node found, the base model read, groups formed
    interval: str | None = None  # of training between checkpoints; none given: Daly's


@dataclass
class Comparing:
    """Hardware that is compared."""

    clusters: list[str] = field(default_factory=lambda: ["a100_80gb", "h100_80gb", "h200"])  # of as many nodes


@dataclass
class Selling:
    """What is charged for tokens."""

    margin: float = 0.3  # a part of the price
    market: list[float] = field(default_factory=list)  # what others charge for a million tokens
    utilisation: float = 0.4  # of the GPU's peak: the ideal that efficiency is told against


@dataclass
class Mixing:
    """What is reserved."""

    demand: str | None = None  # a CSV or Parquet of jobs: submit_s, duration_s, gpus
    discount: float | None = None  # of reserved GPUs; none given: the price file's reserved row


@dataclass
class Loading:
    """How a load is tried."""

    tenants: int = 300  # that come at every rate
    points: int = 6  # rates of the knee, evenly from a fraction of what the work alone allows
    halvings: int = 4  # between the last rate that keeps the promise and the first that breaks it
