"""Our plans against the released planner's, on the planner's own expected batches, judged by its own formula.

An instance holds cost coefficients, max tokens of every (tp, pp), and the expected batch: how many sequences of each
bucket. Some were planned three ways (a pruned search, an older release, the full program): the best of all is compared.
Our kinds are all (tp, pp) with room for a token, as that planner's are.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.paper import PaperCost, paper_coefficients
from lobra.batch import Batch
from lobra.plan import DeploymentPlan, ReplicaConfig
from lobra.spec import ClusterSpec, GpuSpec, Link, ModelSpec, Tenant
from policies.batching.boundaries import FixedBuckets
from policies.batching.padded import Padded
from policies.bounds.best import Bound
from policies.deployment.classes import classes_of, table, undominated
from policies.deployment.expected import LongestSequence
from policies.deployment.judge import Judge
from policies.deployment.placement import Kind, most
from policies.deployment.problem import Problem
from policies.deployment.proof import proof
from policies.deployment.rounds import rounds
from policies.deployment.search import Searched, search
from policies.deployment.tau import Fluid, Search
from policies.dispatch.balanced import Balanced

FOLDER = "peer_lobra"
LINK, GPU = Link(100, 5), GpuSpec("gpu", 80, 312, 2000)


@dataclass(frozen=True)
class Entries:
    """Max tokens as the instance lists them."""

    tokens: Mapping[tuple[int, int], int]

    def max_tokens(self, config: ReplicaConfig, tenants: object) -> int:
        """Tokens of a micro-batch, whoever the tenants are."""
        del tenants
        return self.tokens[config.tp, config.pp]

    def covers(self, config: ReplicaConfig) -> bool:
        """Whether there is an entry."""
        return (config.tp, config.pp) in self.tokens

    def notes(self, config: ReplicaConfig, tenants: object) -> tuple[str, ...]:
        """Nothing to say."""
        del config, tenants
        return ()


@dataclass(frozen=True)
class OneBatch:
    """The tenants of an instance; its batch is given."""

    tenants: tuple[Tenant, ...]


@dataclass(frozen=True)
class Peer:
    """One instance, and the best that was released for it."""

    tag: str
    body: Mapping[str, Any]
    released_seconds: float
    truncated: bool

    def plan(self) -> tuple[DeploymentPlan, float, Bound]:
        """Our plan, its seconds by the released formula, and what no plan of these kinds undercuts by it."""
        tokens = {tuple(map(int, key.split(","))): value for key, value in self.body["cost"]["max_tokens"].items()}
        known = {(tp, pp): value for (tp, pp), value in tokens.items() if value > 0}
        model = ModelSpec(self.body["cost"]["model"], self.body["cost"]["layers"], 1, 1, 1, 1, 1)
        configs = tuple(ReplicaConfig(tp, pp) for tp, pp in known)
        coefficients = paper_coefficients({"coefficients_milliseconds": self.body["cost"]["popt"]})
        cost = PaperCost(model, coefficients, Entries(known), configs, "released")
        cluster = ClusterSpec("nodes", self.body["ngpus"] // 8, 8, GPU, LINK, LINK)
        kinds = tuple(Kind(config, known[config.tp, config.pp]) for config in configs if most(config, cluster))
        counts = {int(width): count for width, count in self.body["bucket_counts"].items() if count}
        lengths = np.repeat(list(counts), list(counts.values()))
        zeros = np.zeros(len(lengths))
        batch = Batch(0, zeros, np.arange(len(lengths)), lengths, lengths)
        longest = max(counts)
        workload = OneBatch((Tenant("all", len(lengths), longest),))
        problem = Problem(workload, model, cluster, cost, kinds, LongestSequence("all", longest, "its bucket"))  # type: ignore[arg-type]
        dispatch = Balanced(split="full")
        judge = Judge((batch,), Padded(FixedBuckets(tuple(counts))), dispatch, cost)
        classes = classes_of([batch], judge.batching, problem.menu(kinds), cost)
        prices = table(classes, kinds, judge.batching, cost)
        fluid = Fluid(prices.rows(undominated(prices, longest)), cluster, longest, Search())
        found = rounds(fluid, classes.by_batch)
        best = search(Searched(fluid, classes, found, classes, fluid, found), problem, judge, pool=12, exchanges=24)
        plan = problem.plan(best.counts)
        seconds = self._judged(plan, judge)
        every = replace(fluid, prices=prices)
        bound, _ = proof(every, classes, found.relaxed if found else None, found, known=seconds, levels=True)
        return plan, seconds, bound

    def _judged(self, plan: DeploymentPlan, judge: Judge) -> float:
        """The slowest replica by the released formula: full micro-batches and one remainder a bucket."""
        buckets = judge.batching.bucket(judge.batches[0], plan, judge.cost)
        assignment = judge.dispatch.assign(buckets, plan, judge.batching, judge.cost)
        slowest = 0.0
        for replica, share in zip(plan.replicas, assignment.shares, strict=True):
            config, total, longest = replica.config, 0.0, 0.0
            for part in share:
                full, rest = divmod(part.count, replica.budget // part.width)
                for size, number in ((replica.budget // part.width, full), (rest, min(rest, 1))):
                    if number:
                        c1, c2, c3, c4, c5, c6 = self.body["cost"]["popt"][str(config.tp)]
                        s = part.width
                        layer = (c1 * size + c2) * s * s + (c3 * size + c4) * s + (c5 * size + c6)
                        stage = layer * self.body["cost"]["layers"] / config.pp / 1e3
                        total += number * stage
                        longest = max(longest, stage)
            slowest = max(slowest, total + (config.pp - 1) * longest)
        return slowest


def peers(folder: Path) -> Iterator[Peer]:
    """All instances of a reference folder, by name."""
    for path in sorted((folder / FOLDER).glob("plan_*.json")):
        body = json.loads(path.read_text())
        released = [float(body["best_objective_s"])]
        for prefix, field in (("planA0", "objective_s"), ("minlp", "obj_s")):
            other = folder / FOLDER / f"{prefix}_{body['tag']}.json"
            if other.exists() and (value := json.loads(other.read_text())[field]) is not None:
                released.append(float(value))
        yield Peer(body["tag"], body, min(released), bool(body.get("truncated")))
