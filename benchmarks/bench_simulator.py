"""How fast the simulator is: seconds, operations per second and peak memory of three steps at three sizes.

    python benchmarks/bench_simulator.py [--policy lobra] [--fidelity pipeline] [--no-spans] [--no-check]

Each size runs in a process of its own; seconds are those of its CPU, deployment planned before the clock starts. Growth
is the ratio to the size before, beside that of n log n in sequences.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from costmodel.catalogue import cost_model
from costmodel.hardware import cluster_spec, model_spec
from lobra.batch import Array
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, Shape, StepPlan
from lobra.protocols import CostModel
from lobra.rates import Provenance, Rates
from lobra.schedule import stage_sizes
from lobra.spec import ClusterSpec, GpuSpec, Link, ModelSpec, SequenceRef, Tenant
from policies.batching.boundaries import DynamicBuckets
from policies.batching.padded import Padded
from policies.deployment.heterogeneous import Heterogeneous
from policies.dispatch.balanced import Balanced
from policies.grouping import Together
from policies.policy import Policy
from sim.simulator import Simulator
from workloads.catalogue import named_workload

SIZES = ((512, 4096), (4096, 32768), (16384, 131072))  # GPUs, sequences a step
STEPS = 3
KINDS = ((1, 1, 16), (1, 2, 8), (2, 2, 4), (4, 2, 1), (8, 1, 1))  # tp, pp, replicas in every 64 GPUs
TOKENS_PER_GPU = 2048
LIMIT = 8 * TOKENS_PER_GPU
MODEL = ModelSpec("bench", layers=32, hidden=4096, intermediate=11008, heads=32, kv_heads=32, vocabulary=32000)
GPU = GpuSpec("bench", memory_gib=40, teraflops=312, memory_gigabytes_per_second=1555)

Directives = Iterator[DeploymentPlan | StepPlan]


@dataclass(frozen=True)
class Arithmetic:
    """A cost model of round numbers, so that the simulator alone is measured."""

    def stage_seconds(self, replica: Replica, stage: int, shape: Shape, kind: str) -> float:
        """Layer seconds times the layers of the stage; the backward takes twice the forward."""
        config = replica.config
        layer: float = max(
            5e-4, 2.5e-4 + (1e-6 * shape.tokens + 1e-10 * shape.squares) / (config.tp**0.8 * shape.shards)
        )
        return layer * stage_sizes(MODEL.layers, config.pp)[stage] * (1 if kind == "forward" else 2)

    def transfer_seconds(self, plan: DeploymentPlan, replica: int, shape: Shape) -> float:
        """Bytes of the activations over 25 GB/s."""
        del plan, replica
        return 1e-5 + shape.tokens * MODEL.hidden * 2 / 25e9

    def synchronise_seconds(self, plan: DeploymentPlan) -> float:
        """A constant."""
        del plan
        return 0.1

    def configs(self) -> tuple[ReplicaConfig, ...]:
        """The kinds of the plan."""
        return tuple(ReplicaConfig(tp, pp) for tp, pp, _ in KINDS)

    def max_tokens(self, config: ReplicaConfig, tenants: object) -> int:
        """Proportional to the GPUs of a stage."""
        del tenants
        return TOKENS_PER_GPU * config.tp

    def rates(self, config: ReplicaConfig, widths: Array, shards: int = 1) -> Rates:
        """The same arithmetic for padded micro-batches: three forwards of the largest stage."""
        times = 3 * stage_sizes(MODEL.layers, config.pp)[0]
        share = times / (config.tp**0.8 * shards)
        rows = share * (1e-6 * widths + 1e-10 * np.square(widths, dtype=np.float64))
        return Rates(times * 5e-4, np.full(len(widths), times * 2.5e-4), rows, None)

    def provenance(self, config: ReplicaConfig, tenants: object, shards: int = 1) -> Provenance:
        """Round numbers."""
        del config, tenants, shards
        return Provenance("derived", "round numbers")


def round_robin(gpus: int, sequences: int) -> tuple[CostModel, Directives]:
    """A plan made by hand and, in every step, sequences dealt in turn to the replicas that hold them."""
    return Arithmetic(), dealt(gpus, sequences)


def dealt(gpus: int, sequences: int) -> Directives:
    """The directives of `round_robin`: log-normal lengths, rows of one width, costliest first."""
    link = Link(gigabytes_per_second=25, latency_microseconds=10)
    cluster = ClusterSpec("bench", gpus // 8, 8, GPU, link, link)
    tenants = tuple(Tenant(f"t{i}", batch_size=sequences // 4, context_limit=LIMIT) for i in range(4))
    replicas, start = [], 0
    for _ in range(gpus // 64):
        for tp, pp, count in sorted(KINDS, reverse=True):
            for _ in range(count):
                place = tuple(range(start, start + tp * pp))
                replicas.append(Replica(ReplicaConfig(tp, pp), place, TOKENS_PER_GPU * tp))
                start += tp * pp
    plan = DeploymentPlan(MODEL, cluster, tenants, tuple(replicas))
    yield plan
    for step in range(STEPS):
        yield StepPlan(step, deal(plan, step, sequences))


def deal(plan: DeploymentPlan, step: int, sequences: int) -> tuple[tuple[MicroBatch, ...], ...]:
    """Work for every replica, from the longest sequence to the shortest."""
    drawn = np.random.default_rng([0, step]).lognormal(5.5, 1.1, sequences)
    lengths = np.sort(np.clip(drawn, 16, LIMIT).astype(int))[::-1].tolist()
    holders = {tp: [i for i, r in enumerate(plan.replicas) if r.config.tp >= tp] for tp in (1, 2, 4, 8)}
    shares: list[list[SequenceRef]] = [[] for _ in plan.replicas]
    for index, length in enumerate(lengths):
        need = next(tp for tp in holders if length <= TOKENS_PER_GPU * tp)
        shares[holders[need][index % len(holders[need])]].append(SequenceRef(index % 4, index, length, length))
    return tuple(form(share, replica.budget) for share, replica in zip(shares, plan.replicas, strict=True))


def form(share: list[SequenceRef], budget: int) -> tuple[MicroBatch, ...]:
    """Padded micro-batches of a share that is sorted by length, longest first."""
    formed, start = [], 0
    while start < len(share):
        width = -(-share[start].length // 16) * 16
        rows = share[start : start + budget // width]
        formed.append(MicroBatch(tuple((row,) for row in sorted(rows)), width))
        start += len(rows)
    return tuple(formed)


def lobra(gpus: int, sequences: int) -> tuple[CostModel, Directives]:
    """The policy `lobra` on the paper's six tasks, batches and cluster scaled up; planned before the clock starts."""
    model, cluster = model_spec("llama2_7b"), cluster_spec("a100_40gb", gpus // 8, 8)
    workload, cost = named_workload("lobra6", batch_size=sequences), cost_model(model, cluster)
    batching, dispatch = Padded(DynamicBuckets()), Balanced()
    policy = Policy("lobra", Together(), Heterogeneous(batching, dispatch), batching, dispatch)
    start = time.perf_counter()
    plan = policy.deployment.plan(workload, model, cluster, cost)
    print(f"planned {plan.summary()} in {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return cost, chain([plan], policy.steps(workload.batches(STEPS), plan, cost))


POLICIES: dict[str, Callable[[int, int], tuple[CostModel, Directives]]] = {"lobra": lobra, "round_robin": round_robin}


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One size in this process: CPU seconds of policy and simulator, operations and peak MiB."""
    gpus, sequences = SIZES[options.size]
    cost, directives = POLICIES[options.policy](gpus, sequences)
    operations, thinking = 0, 0.0

    def timed() -> Directives:
        nonlocal operations, thinking
        pp: list[int] = []
        while True:
            start = time.process_time()
            directive = next(directives, None)
            thinking += time.process_time() - start
            if directive is None:
                return
            if isinstance(directive, DeploymentPlan):
                pp = [replica.config.pp for replica in directive.replicas]
            else:
                operations += sum(2 * stages * len(work) for stages, work in zip(pp, directive.work, strict=True))
            yield directive

    start = time.process_time()
    simulator = Simulator(cost, options.fidelity, spans=not options.no_spans, check=not options.no_check)
    for _ in simulator.play(timed()):
        pass
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "policy": thinking, "operations": operations, "mib": peak}


def child(size: int) -> dict[str, float]:
    """The same of a fresh process."""
    command = [sys.executable, __file__, *sys.argv[1:], "--size", str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  # this very file
    result: dict[str, float] = json.loads(done.stdout)
    return result


def table() -> None:
    print(
        f"{STEPS} steps of     gpus sequences operations | seconds   policy  simulator      ops/s | peak MiB"
        " | growth  n log n"
    )
    before: tuple[float, int] | None = None
    for size, (gpus, sequences) in enumerate(SIZES):
        found = child(size)
        own = found["seconds"] - found["policy"]
        growth = expected = ""
        if before is not None:
            growth = f"{found['seconds'] / before[0]:.1f}"
            expected = f"{sequences * math.log(sequences) / (before[1] * math.log(before[1])):.1f}"
        print(
            f"{'':10} {gpus:9} {sequences:9} {found['operations']:10.0f} | {found['seconds']:7.2f}"
            f" {found['policy']:8.2f} {own:10.2f} {found['operations'] / own:10.0f} | {found['mib']:8.0f}"
            f" | {growth:>6} {expected:>8}"
        )
        before = (found["seconds"], sequences)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--policy", choices=sorted(POLICIES), default="lobra")
    parser.add_argument("--fidelity", choices=["pipeline", "closed"], default="pipeline")
    parser.add_argument("--no-spans", action="store_true")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--size", type=int, choices=range(len(SIZES)), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.size is None:
        table()
    else:
        print(json.dumps(measure(options)))


if __name__ == "__main__":
    main()
