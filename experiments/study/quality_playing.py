"""The work of the quality points: steps on the replicas that were planned once, beside what no plan beats in each step.

Everything is priced by the planner's view, in which the bounds are proven; the synchronisation is left out on both
sides. The joint problem of a step may choose replicas for this very batch: its bound is the certificate's, over all
mixes of kinds, where micro-batches are formed as the first policy forms them. For the first steps a plan is also looked
for that is made for the step alone, so that a reader sees how much of a gap could be had, and how much may be weakness
of the bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.scaled import Layered, floor_form
from experiments.build import build_policy, build_world
from experiments.failures import EXPECTED, exit_code_of, reason
from experiments.job import Job
from experiments.planning_case import play, standing
from experiments.walk import World
from lobra.batch import Batch
from lobra.errors import Infeasible
from lobra.plan import DeploymentPlan
from policies.bounds.best import Bound
from policies.deployment.classes import Classes, classes_of, undominated
from policies.deployment.judge import Judge
from policies.deployment.kinds import Space
from policies.deployment.problem import Problem, problem_of
from policies.deployment.proof import proof
from policies.deployment.rounds import Rounds, rounds
from policies.deployment.sampled import deploy_sampled
from policies.deployment.search import Searched, search
from policies.deployment.sharing import group_table
from policies.deployment.tau import Fluid, Search, ideal_seconds
from policies.policy import Policy

BUDGETS = 3  # of a pipeline, in the joint problem: as LobRA's own planner has


@dataclass(frozen=True, slots=True)
class Joint:
    """The joint problem of one step's batch."""

    problem: Problem
    policy: Policy
    batch: Batch
    pool: int  # candidates played in search of a plan for this batch

    def proven(self, known: float, *, tried: bool) -> tuple[Bound, float | None]:
        """The bound for all plans, given one of `known` seconds; and seconds of the best plan found, if tried."""
        problem, batching, cost = self.problem, self.policy.batching, self.problem.cost
        classes = classes_of([self.batch], batching, problem.menu(problem.kinds), cost)
        prices = group_table(classes, problem.kinds, batching, cost, cluster=problem.cluster, groups=1)
        every = Fluid(prices, problem.cluster, problem.longest.tokens, Search())
        fluid = replace(every, prices=prices.rows(undominated(prices, problem.longest.tokens)))
        found = rounds(fluid, classes.by_batch) if tried else _fractions(fluid, classes)
        if found is None:
            raise Infeasible("quality: no plan serves this batch; take kinds that hold its longest sequence")
        bound, _ = proof(every, classes, found.relaxed, found, known=known, levels=True)
        if not tried:
            return bound, None
        judge = Judge((self.batch,), batching, self.policy.dispatch, cost)
        searched = Searched(fluid, classes, found, classes, fluid, found)
        best = search(searched, problem, judge, pool=self.pool, exchanges=self.pool)
        return bound, min(known, best.seconds - cost.synchronise_seconds(problem.plan(best.counts)))


def _fractions(fluid: Fluid, classes: Classes) -> Rounds | None:
    """What a proof needs to know of the fluid, by replicas in fractions: milliseconds; the level program follows."""
    ideal = np.array([ideal_seconds(fluid.prices, amounts, fluid.cluster.gpus) for amounts in classes.by_batch])
    outcome = deploy_sampled(fluid, classes.by_batch, 1.1 * ideal, whole=False)
    if outcome is None:
        return None
    return Rounds((), outcome, outcome.bound_seconds, np.array([outcome.bound_seconds]))


def judged(job: Job, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of every policy's steps; of each step the joint bound and its name; of the first ones the best found.

    options: tried, first steps for which a plan is looked for; pool, candidates played for each.
    """
    world = build_world(job.config)
    if isinstance(world.cost, Layered):
        world = replace(world, cost=floor_form(world.cost))
    policies = {name: build_policy(wanted, job.config.seed) for name, wanted in job.policies.items()}
    plans: dict[str, DeploymentPlan] = {}
    bodies: dict[str, Any] = {}
    for name, policy in policies.items():
        try:
            plans[name] = policy.deployment.plan(world.workload, world.model, world.cluster, world.cost)
            status = standing(plans[name], world.cost)[0]
            bodies[name] = {"seconds": [], "plan": plans[name].summary(), "status": status}
        except EXPECTED as error:
            bodies[name] = {"failed": reason(error), "exit_code": exit_code_of(error)}
    if not plans:
        raise Infeasible("; ".join(f"{name}: {body['failed']}" for name, body in bodies.items()))
    bounds, best = [], []
    for step, batch in enumerate(world.workload.batches(job.config.steps)):
        seconds = {name: _step_seconds(plan, policies[name], batch, world) for name, plan in plans.items()}
        for name, value in seconds.items():
            bodies[name]["seconds"].append(value)
        joint = Joint(_problem(world), policies[next(iter(plans))], batch, options["pool"])
        bound, found = joint.proven(min(seconds.values()), tried=step < options["tried"])
        bounds.append(bound)
        best += [] if found is None else [found]
    names = [bound.name for bound in bounds]
    return {
        "policies": bodies,
        "bound_seconds": [bound.seconds for bound in bounds],
        "bounds": {name: names.count(name) for name in sorted(set(names))},
        "best_seconds": best,
    }


def _problem(world: World) -> Problem:
    """All kinds of the cost model, a pipeline with three budgets."""
    return problem_of(
        Space(budgets=BUDGETS), world.workload, "limit", model=world.model, cluster=world.cluster, cost=world.cost
    )


def _step_seconds(plan: DeploymentPlan, policy: Policy, batch: Batch, world: World) -> float:
    """The slowest replica of the step as it would be dispatched."""
    return float(play(plan, Judge((batch,), policy.batching, policy.dispatch, world.cost)).busy.max())
