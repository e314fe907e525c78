"""Adaptive batching on LoRAFusion's instances, beside what its own integer programs and merges answered.

An instance gives lengths[adapter][batch][sample], stages, a capacity and a tile of 128 tokens. Times are in tokens: a
micro-batch takes its tile-rounded tokens forward and as many backward on every stage. Its schedules and times are taken
as recorded (v1: the path of its scripts; v2: the other one in its code); the recorded loads are also played here. Ours
is played by the walk below over `lobra.schedule`, which knows only what an operation needs to begin, and is not the
planner's own clock; capacity, conservation and the rule of an undrained pipeline are checked on the way.

    python benchmarks/adapter_instances.py --reference-data FOLDER

In the table `slots (v1)` counts ours and v1's, empty ones included; `turns` is the ratio of our round robin to v1;
`illegal` are the pairs of micro-batches in v1 and v2 that break the rule before their empty slots are put in.

Exit code 1 if the mean ratio of ours to v1 exceeds 1.00, if a schedule is illegal, or if two runs differ.
"""

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lobra.schedule import Direction, one_forward_one_backward
from policies.adaptive.adaptive import Adaptive
from policies.adaptive.flow import Judge
from policies.adaptive.nouns import Prices, Room, Sample, Slot
from policies.adaptive.round_robin import RoundRobin
from policies.adaptive.rule import Places

FOLDER, TILE, BAR, REPEATS = "peer_lorafusion", 128, 1.00, 3


@dataclass(frozen=True)
class Row:
    """One instance; times in tokens."""

    name: str
    theirs_v1: float
    theirs_v2: float
    illegal: tuple[int, int]  # pairs that break the rule before v1's and v2's empty slots were put in
    theirs_slots: int  # of v1, empty ones included
    theirs_seconds: float  # of its solver
    ours: float
    slots: int
    empty: int  # of these
    by_turns: float  # our round robin
    cpu_milliseconds: float  # median of ours
    milliseconds: float  # wall clock, likewise
    same: bool  # every run answered the same

    @property
    def ratio(self) -> float:
        """Ours to v1."""
        return self.ours / self.theirs_v1


def rows(reference_data: Path) -> list[Row]:
    """All instances; empty where the folder is absent."""
    folder = reference_data / FOLDER
    if not (folder / "instances.json").is_file():
        return []
    instances = json.loads((folder / "instances.json").read_text())
    results = json.loads((folder / "results.json").read_text())
    return [_row(instance, result) for instance, result in zip(instances, results, strict=True)]


def _row(instance: dict[str, Any], result: dict[str, Any]) -> Row:
    v1, v2 = result["merge_v1_used_by_mp_path"], result["merge_v2_used_by_sp_path"]
    stages = instance["stages"]
    for found in (v1["after_noop"], v2["after_noop"]):
        played = makespan(found["loads"], stages)
        if abs(played - found["own_1f1b_T"]) > 1e-6 * played:
            raise AssertionError(f"{instance['name']}: recorded {found['own_1f1b_T']} tokens, played {played}")
    flows, cpu, wall = [], [], []
    for _ in range(REPEATS):
        clocks = time.process_time(), time.perf_counter()
        flows.append(planned(instance, Adaptive(tile=TILE).arranged))
        cpu.append(time.process_time() - clocks[0])
        wall.append(time.perf_counter() - clocks[1])
    loads = checked(instance, flows[0])
    return Row(
        instance["name"],
        v1["after_noop"]["own_1f1b_T"],
        v2["after_noop"]["own_1f1b_T"],
        (v1["before_noop"]["lemma_violations"], v2["before_noop"]["lemma_violations"]),
        len(v1["after_noop"]["loads"]),
        result["solve_s_total"],
        makespan(loads, stages),
        len(loads),
        loads.count(0),
        makespan(checked(instance, planned(instance, RoundRobin(tile=TILE).arranged)), stages),
        statistics.median(cpu) * 1e3,
        statistics.median(wall) * 1e3,
        all(flow == flows[0] for flow in flows),
    )


def planned(instance: dict[str, Any], arrange: Callable[[Sequence[Sample], Judge, int], list[Slot]]) -> list[Slot]:
    """The slots of one instance, all batches at once."""
    samples = [
        Sample(adapter, batch, length, number)
        for adapter, batches in enumerate(instance["lengths"])
        for batch, lengths in enumerate(batches)
        for number, length in enumerate(lengths)
    ]
    prices = Prices(lambda _, width: 2.0 * width, 0.5)
    return arrange(samples, Judge(Room(instance["capacity"], TILE), prices, Places(instance["stages"])), 1)


def checked(instance: dict[str, Any], slots: Sequence[Slot]) -> list[int]:
    """Tile-rounded tokens of every slot, 0 for the empty ones that the rule asks for; AssertionError if illegal."""
    stages, lengths = instance["stages"], instance["lengths"]
    wanted = Counter(
        (a, b, n) for a, batches in enumerate(lengths) for b, part in enumerate(batches) for n in range(len(part))
    )
    trained: Counter[tuple[int, int, int]] = Counter()
    loads: list[int] = []
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    for (pack,) in slots:
        shares: Counter[tuple[int, int]] = Counter()
        for sample in pack:
            shares[sample.adapter, sample.batch] += lengths[sample.adapter][sample.batch][sample.number]
            trained[sample.adapter, sample.batch, sample.number] += 1
        assert len({adapter for adapter, _ in shares}) == len(shares), "two batches of an adapter in one micro-batch"
        earliest = max((last[a, b - 1] + stages for a, b in shares if (a, b - 1) in last), default=0)
        loads.extend([0] * (earliest - len(loads)))
        for key in shares:
            first.setdefault(key, len(loads))
            last[key] = len(loads)
        loads.append(sum(-(-tokens // TILE) * TILE for tokens in shares.values()))
        assert loads[-1] <= instance["capacity"], "a micro-batch exceeds its capacity"
    assert trained == wanted, "sequences lost or trained twice"
    for (adapter, batch), begins in first.items():
        assert not batch or begins >= last[adapter, batch - 1] + stages, "a batch sees stale weights"
    return loads


def makespan(loads: Sequence[float], stages: int) -> float:
    """Tokens until the last operation: each stage walks its order, each operation waits for what it needs."""
    orders = [list(one_forward_one_backward(stage, stages, len(loads))) for stage in range(stages)]
    ends: dict[tuple[int, Direction, int], float] = {}
    free, at = [0.0] * stages, [0] * stages
    while any(at[stage] < len(orders[stage]) for stage in range(stages)):
        for stage in range(stages):
            while at[stage] < len(orders[stage]):
                kind, number = orders[stage][at[stage]]
                source = stage - 1 if kind == "forward" else stage + 1
                needed = ends.get((source, kind, number)) if 0 <= source < stages else 0.0
                if needed is None:
                    break
                free[stage] = ends[stage, kind, number] = max(free[stage], needed) + loads[number]
                at[stage] += 1
    return max(free)


def main() -> int:
    """Print the table; 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description="adaptive batching on LoRAFusion's instances")
    parser.add_argument("--reference-data", type=Path, default=Path("../shared/data"))
    found = rows(parser.parse_args().reference_data)
    if not found:
        print(f"skipped: no {FOLDER}/instances.json in the reference data")
        return 0
    print(
        "instance                  v1 tokens  v2 tokens    ours  to v1  to v2  slots (v1)  empty  turns  CPU ms"
        "  wall ms  (solver s)  illegal"
    )
    for row in found:
        print(
            f"{row.name:24} {row.theirs_v1:10.0f} {row.theirs_v2:10.0f} {row.ours:7.0f} {row.ratio:6.3f}"
            f" {row.ours / row.theirs_v2:6.3f} {row.slots:6d} ({row.theirs_slots:2d}) {row.empty:6d}"
            f" {row.by_turns / row.theirs_v1:6.3f} {row.cpu_milliseconds:7.1f} {row.milliseconds:8.1f}"
            f" {row.theirs_seconds:11.1f}  {row.illegal[0]}, {row.illegal[1]}"
        )
    mean = statistics.fmean(row.ratio for row in found)
    best = statistics.fmean(row.ours / min(row.theirs_v1, row.theirs_v2) for row in found)
    same = all(row.same for row in found)
    print(
        f"mean ratio to v1 {mean:.3f} (bar {BAR:.2f}), to the better of v1 and v2 {best:.3f}; "
        f"every run the same: {same}"
    )
    return 0 if mean <= BAR and same else 1


if __name__ == "__main__":
    sys.exit(main())
