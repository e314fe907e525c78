"""Bucketing and packing against their bars, in CPU milliseconds (medians), beside the released planner's records.

Bucketing is the whole of `bucket`: histogram, boundaries, and the batch cut into its buckets. Best fit decreasing is
judged by ceil(tokens / room). Heterogeneous packing is everything from a bucketed batch to priced bins of every replica
(`PackedPipeline.divide`); making micro-batches of the bins is not in it. It is judged by the fluid bound over all
distinct lengths, which knows neither whole packs nor pipeline bubbles. The bars are for the cost of lengths alone, so
adapter runs are free there; the rows that price them have no bar, their bound knows one run a pack. Where the reference
data are, the released planner's bucketing instances must come out with equal padding, and adapter batching is judged as
`adapter_instances` says.

    python benchmarks/bench_batching.py --reference-data FOLDER

Exit code 1 if a bar is missed.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from batching_instances import PIPELINED, Packing, lognormal_batch, packing_bound, packing_instance

from policies.batching.bins import best_fit
from policies.batching.boundaries import DynamicBuckets
from policies.batching.market import market_of
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.batching.portfolio import Portfolio
from policies.dispatch.packed_pipeline import PackedPipeline

Answer = TypeVar("Answer")

BUCKETING_MS, BINS_MS, BINS_OVER = 5.0, 50.0, 3
SMALL = (10.0, 0.01)  # milliseconds and gap of 4,000 sequences on 64 GPUs
LARGE = (300.0, 0.02)  # of 100,000 on 1,024
RELEASED_BUCKETING_MS = 1549  # CPU, 16,384 sequences, step 16, 16 buckets: peer_lobra/bucket_dp.json


@dataclass(frozen=True)
class Timed:
    """CPU and wall milliseconds of one call, medians."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{self.cpu:7.2f} ms CPU {self.wall:7.2f} ms wall"


def timed(call: Callable[[], Answer], repeats: int) -> tuple[Timed, Answer]:
    """The medians, and what the call answers; once before, so that nothing is timed that happens only once."""
    answer = call()
    cpu, wall = [], []
    for _ in range(repeats):
        clocks = time.process_time(), time.perf_counter()
        call()
        cpu.append((time.process_time() - clocks[0]) * 1e3)
        wall.append((time.perf_counter() - clocks[1]) * 1e3)
    return Timed(statistics.median(cpu), statistics.median(wall)), answer


def verdict(*held: bool) -> str:
    """The last word of a row."""
    return "ok" if all(held) else "MISSED"


def bucketing(repeats: int, instance: Packing) -> list[bool]:
    """65,536 sequences by several rules, and 16,384 as the released planner was timed with."""
    held = []
    for sequences, step, number, barred in (
        (16384, 16, 16, True),
        (65536, 16, 16, True),
        (65536, 64, 16, True),
        (65536, 64, 32, True),
        (65536, 64, 64, False),
        (65536, 16, 32, False),
    ):
        batch, rule = lognormal_batch(sequences), Padded(DynamicBuckets(number, step))
        spent, buckets = timed(lambda: rule.bucket(batch, instance.plan, instance.cost), repeats)  # noqa: B023  # now
        padding = 1 - batch.tokens / sum(bucket.width * bucket.count for bucket in buckets)
        good = spent.cpu <= BUCKETING_MS
        held.append(good or not barred)
        peer = f"  released {RELEASED_BUCKETING_MS} ms CPU" if (sequences, step) == (16384, 16) else ""
        print(
            f"bucket {sequences:6d} sequences, step {step:3d}, {number:2d} buckets  {spent}  padding {padding:6.1%}  "
            f"{verdict(good) if barred else 'no bar'}{peer}",
            flush=True,
        )
    return held


def portfolio(repeats: int, instance: Packing) -> None:
    """What choosing among bucketings saves of the fluid makespan, and takes."""
    for step, number in ((64, 8), (16, 16), (64, 32)):
        plain, chosen = Padded(DynamicBuckets(number, step)), Portfolio(number, step)
        seconds = []
        spent, _ = timed(lambda: chosen.bucket(instance.batch, instance.plan, instance.cost), repeats)  # noqa: B023
        for rule in (plain, chosen):
            buckets = rule.bucket(instance.batch, instance.plan, instance.cost)
            market = market_of(np.array([bucket.width for bucket in buckets]), instance.plan, instance.cost)
            counts = np.array([float(bucket.count) for bucket in buckets])
            seconds.append(market.fluid(np.arange(len(counts)), counts)[0])
        print(
            f"portfolio, step {step:3d}, {number:2d} buckets, {len(instance.batch)} sequences  {spent}  "
            f"fluid makespan {seconds[1] / seconds[0] - 1:+.2%} of fewest padded tokens",
            flush=True,
        )


def bins(repeats: int) -> list[bool]:
    """Best fit decreasing alone."""
    held = []
    for room in (2048, 16384):
        for sequences in (1_000, 10_000, 100_000):
            lengths = np.sort(lognormal_batch(sequences, room).length)[::-1]
            spent, placed = timed(lambda: best_fit(lengths, room), repeats)  # noqa: B023  # called at once
            number, bound = max(placed) + 1, -(-int(lengths.sum()) // room)
            good = spent.cpu <= BINS_MS and number <= bound + BINS_OVER
            held.append(good)
            print(
                f"best fit {sequences:6d} sequences, room {room:5d}  {spent}  {number} bins, bound {bound}  "
                f"{verdict(good)}",
                flush=True,
            )
    return held


def packing(instances: Sequence[Packing], repeats: int, bar: tuple[float, float] | None) -> bool:
    """Heterogeneous packing of several batches: the median of their times, the mean of their gaps."""
    batching, dispatch = Packed(), PackedPipeline()
    times, gaps = [], []
    for instance in instances:
        buckets = batching.bucket(instance.batch, instance.plan, instance.cost)
        spent, shares = timed(lambda: dispatch.divide(buckets, instance.plan, batching, instance.cost), repeats)  # noqa: B023
        times.append(spent)
        gaps.append(float(shares.seconds.max()) / packing_bound(instance, batching) - 1)
    spent = Timed(statistics.median(time.cpu for time in times), statistics.median(time.wall for time in times))
    gap = statistics.fmean(gaps)
    good = bar is None or (spent.cpu <= bar[0] and gap <= bar[1])
    print(
        f"pack {len(instances)} x {instances[0].name}  {spent}  gap to the fluid {gap:.2%} "
        f"({min(gaps):.2%}..{max(gaps):.2%})  {'no bar' if bar is None else verdict(good)}",
        flush=True,
    )
    return good


def released(path: Path) -> list[bool]:
    """Equal padding on the released planner's own bucketing instances."""
    if not path.is_file():
        print(f"skipped: no {path}; name the folder with --reference-data")
        return []
    held = []
    for peer in json.loads(path.read_text()):
        if not peer["lengths"]:
            continue
        lengths, ample = np.array(peer["lengths"]), np.array([1 << 20])
        distinct, counts = np.unique(lengths, return_counts=True)
        ends = DynamicBuckets(peer["R"], peer["interval"]).boundaries(distinct, counts, ample)
        padding = int((ends[np.searchsorted(ends, lengths)] - lengths).sum())
        held.append(padding == peer["pad_tokens"])
        print(f"released, {peer['n']:5d} sequences, step {peer['interval']:3d}: padding {padding} tokens, ", end="")
        print(f"released {peer['pad_tokens']}  {verdict(held[-1])}", flush=True)
    return held


def adapters(reference_data: Path) -> list[bool]:
    """LoRAFusion's instances, where their benchmark and data are there."""
    if importlib.util.find_spec("adapter_instances") is None:
        return []
    import adapter_instances  # noqa: PLC0415  # it may be absent

    found = adapter_instances.rows(reference_data)
    if not found:
        print(f"skipped: no {adapter_instances.FOLDER} in {reference_data}; name the folder with --reference-data")
        return []
    ratio, same = statistics.fmean(row.ratio for row in found), all(row.same for row in found)
    good = ratio <= adapter_instances.BAR and same
    spent = statistics.median(row.cpu_milliseconds for row in found)
    print(
        f"adapters, {len(found)} instances: makespan {ratio:.3f} of LoRAFusion's schedules (bar "
        f"{adapter_instances.BAR:.2f}), median {spent:.1f} ms CPU, every run the same: {same}  {verdict(good)}"
    )
    return [good]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).parent.parent.parent / "shared" / "data"
    parser.add_argument("--reference-data", type=Path, default=default, help="folder that holds peer_lobra/")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    repeats = options.repeats
    small = [packing_instance(4_000, 64, seed=seed) for seed in range(6)]
    large = [packing_instance(100_000, 1024, seed=seed) for seed in range(2)]
    held = bucketing(repeats, small[0])
    portfolio(repeats, small[0])
    held += bins(repeats)
    held += [packing(small, repeats, SMALL), packing(large, max(3, repeats // 3), LARGE)]
    packing([packing_instance(4_000, 64, PIPELINED)], max(3, repeats // 3), None)
    for runs in (1.0, 3.0):
        packing([packing_instance(4_000, 64, seed=seed, runs=runs) for seed in range(6)], max(3, repeats // 3), None)
    held += released(options.reference_data / "peer_lobra" / "bucket_dp.json")
    held += adapters(options.reference_data)
    print(f"missed: {held.count(False)} of {len(held)}")
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
