"""Samples, judges and runs for adaptive orders."""

from collections.abc import Sequence

import numpy as np

from lobra.batch import Batch
from policies.adaptive.flow import Judge
from policies.adaptive.nouns import Prices, Room, Sample
from policies.adaptive.rule import Places

PER_TOKEN = Prices(lambda _, width: 2.0 * width, 0.5)  # a second a token forward, and one back


def samples(*lengths: int, adapter: int = 0, batch: int = 0) -> list[Sample]:
    return [Sample(adapter, batch, length, number) for number, length in enumerate(lengths)]


def judge(stages: int, tokens: int = 100, tile: int = 1) -> Judge:
    return Judge(Room(tokens, tile), PER_TOKEN, Places(stages))


def batch(step: int, *lengths: Sequence[int]) -> Batch:
    """The lengths of each tenant; indices go on from batch to batch."""
    owners = np.repeat(np.arange(len(lengths)), [len(part) for part in lengths])
    flat = np.array([length for part in lengths for length in part], dtype=np.int64)
    return Batch(step, owners, np.arange(len(flat)) + 1000 * step, flat, flat)
