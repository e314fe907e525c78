"""What adapters cost on this machine: one linear layer with the executor's kernels, by rank and by adapter runs.

    python benchmarks/bench_adapters.py [--repeats 7] [--hidden 512] [--tokens 1024]

Forward and backward of one frozen linear layer whose tokens belong to one, two, four or eight adapters in turn, at
ranks 8, 16 and 64, less the same layer without any. Medians of CPU seconds, one thread; all ways take turns within a
repeat. The price form (`costmodel.adapters`) says: a part a token that grows with the rank, and a part a run. Exit code
1 where a rank eight times as large is not dearer, or eight runs of a loop are not dearer than one.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from executor.lora import Slot, lora_linear
from executor.settings import LoraKind

RUNS, RANKS = (1, 2, 4, 8), (8, 16, 64)
KERNELS: tuple[LoraKind, ...] = get_args(LoraKind)
Way = tuple[LoraKind, int, int]  # kernels, rank, runs; no runs: the frozen layer alone


def slots_of(tokens: int, hidden: int, rank: int, runs: int) -> list[Slot]:
    """So many adapters, each on an equal part of the tokens."""
    generator = torch.Generator().manual_seed(0)
    parts = [tokens * number // runs for number in range(runs + 1)] if runs else [0]
    return [
        Slot(
            start,
            end,
            torch.randn(rank, hidden, generator=generator).requires_grad_(),
            torch.randn(hidden, rank, generator=generator).requires_grad_(),
            1.0,
        )
        for start, end in pairwise(parts)
    ]


def seconds_of(way: Way, tokens: int, hidden: int) -> float:
    """CPU seconds of one forward and backward pass."""
    kernels, rank, runs = way
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(tokens, hidden, generator=generator).requires_grad_()
    weight, slots = torch.randn(hidden, hidden, generator=generator), slots_of(tokens, hidden, rank, runs)
    gradient = torch.ones(tokens, hidden)
    start = time.process_time()
    torch.autograd.backward(lora_linear(x, weight, None, slots, kernels), gradient)
    return time.process_time() - start


def measure(repeats: int, tokens: int, hidden: int) -> dict[Way, float]:
    """Medians of every way, the frozen layer included."""
    ways: list[Way] = [("loop", 0, 0), *((k, rank, runs) for k in KERNELS for rank in RANKS for runs in RUNS)]
    found: dict[Way, list[float]] = {way: [] for way in ways}
    for number in range(repeats + 1):
        for way in ways if number % 2 else reversed(ways):
            found[way].append(seconds_of(way, tokens, hidden))
    return {way: statistics.median(times[1:]) for way, times in found.items()}  # the first repeat warms up


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=1024)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    begun = time.perf_counter()
    found = measure(options.repeats, options.tokens, options.hidden)
    frozen = found["loop", 0, 0]
    print(
        f"one linear layer {options.hidden} x {options.hidden}, {options.tokens} tokens: {frozen * 1e3:.2f} ms frozen"
    )
    print(f"{'kernels':10}{'rank':>6}  " + "".join(f"{f'{runs} runs':>10}" for runs in RUNS) + "  ms more; a run")
    for kernels in KERNELS:
        for rank in RANKS:
            more = [found[kernels, rank, runs] - frozen for runs in RUNS]
            told = "".join(f"{each * 1e3:10.2f}" for each in more)
            print(f"{kernels:10}{rank:6}  {told}  {(more[-1] - more[0]) / (RUNS[-1] - RUNS[0]) * 1e3:.3f}")
    print(f"{time.perf_counter() - begun:.1f} wall seconds")
    ranks = all(found[kernels, RANKS[-1], 1] > found[kernels, RANKS[0], 1] for kernels in KERNELS)
    runs = all(found["loop", rank, RUNS[-1]] > found["loop", rank, 1] for rank in RANKS)
    print(f"a larger rank is dearer: {_verdict(ranks)}; eight runs of a loop are dearer than one: {_verdict(runs)}")
    return int(not (ranks and runs))


def _verdict(holds: bool) -> str:
    return "holds" if holds else "missed"


if __name__ == "__main__":
    sys.exit(main())
