"""One question played: an oracle of the tenants' plans, and a history of the fleet in every seed.

Between seeds differ: arrivals and budgets as drawn, which of the played batches every step takes, and by how much all
prices of work are off, one log-normal factor a seed. Its deviation follows from what the prices rest on (see
`costmodel.uncertainty`: measured 4.7 %, derived 7 %, roofline 25 %, wider beyond what was timed). The same seed has the
same draws on every cluster and under every policy, so that comparisons are paired.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from costmodel.moving import Moving
from costmodel.uncertainty import systematic_sigma
from experiments.capacity.admission import Admission, Order
from experiments.capacity.composing import Plays, fleet_of, jobs_of, kinds_of, workload_of
from experiments.capacity.deciding import Decider, Redeployment
from experiments.capacity.deciding import Rule as ChurnRule
from experiments.capacity.oracle import Kinds, Oracle
from experiments.planning_case import standing
from experiments.study.referee_playing import counted
from experiments.walk import World
from experiments.whatif.answer import Basis, weakest
from experiments.whatif.arriving import arrivals_of
from experiments.whatif.asking import Asked
from experiments.whatif.words import seconds_of, some_seconds
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan
from policies.policy import step_plan
from policies.replanning.decision import Terms
from sim.fleet.fleet import Fleet
from sim.fleet.losses import Fragile
from sim.fleet.nouns import StepTime
from workloads.arrivals.nouns import Arrival

STREAM = zlib.crc32(b"prices of a seed")


@dataclass(frozen=True, slots=True)
class Ground:
    """What the prices of work rest on."""

    basis: Basis
    extrapolated: bool
    sigma: float  # of the logarithm of the factor that every seed draws
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A question's plays, one a seed."""

    asked: Asked
    oracle: Oracle
    ground: Ground
    arrivals: tuple[tuple[Arrival, ...], ...]
    factors: tuple[float, ...]  # by how much prices are off in each seed
    histories: tuple[Plays, ...]

    @property
    def gpus(self) -> int:
        """Of the cluster."""
        return self.asked.world.cluster.gpus

    def alone_seconds(self, tenant: str, number: int) -> float:
        """A step of this tenant by itself in the number-th seed."""
        return self.oracle.alone_seconds(tenant) * self.factors[number]


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """The oracle's step times, all off by one factor."""

    oracle: Oracle
    factor: float

    def __call__(self, jobs: tuple[str, ...], plan: DeploymentPlan, /) -> StepTime:
        """A step of these tenants on this plan."""
        time = self.oracle.step_time(jobs, plan)
        return StepTime(tuple(each * self.factor for each in time.seconds), time.split)


def play(asked: Asked, fragile: Sequence[Fragile] | None = None) -> Played:
    """Every seed; Infeasible where a tenant fits nowhere. fragile: how nodes are lost, for each seed."""
    arrivals = arrivals_of(asked)
    oracle = oracle_of(asked, arrivals)
    oracle.refuse_unservable()
    ground = ground_of(oracle, team_of(asked, oracle))
    factors = factors_of(asked, ground)
    fleet = fleet_by_rules(asked, oracle)
    histories, lengths = [], dict[str, float]()
    for number, (each, seed) in enumerate(zip(arrivals, asked.seeds, strict=True)):
        jobs = jobs_of(each, oracle.world.workload, asked.sizes, lengths)
        playing = replace(fleet, step_times=StepTimes(oracle, factors[number]), seed=seed)
        if fragile is not None:
            playing = replace(playing, fragile=fragile[number])
        histories.append(playing.play(jobs))
    return Played(asked, oracle, ground, arrivals, factors, tuple(histories))


def oracle_of(asked: Asked, arrivals: Sequence[Sequence[Arrival]]) -> Oracle:
    """Of everybody who comes in any seed."""
    everybody = {each.tenant.name: each for some in arrivals for each in some}
    present = {each.kind or each.tenant.name for each in everybody.values()}
    missing = [Arrival(offer.tenant, 0.0, offer.budget) for offer in asked.offers if offer.tenant.name not in present]
    together = [replace(each, at_seconds=0.0) for each in (*everybody.values(), *missing)]
    workload = workload_of(together, asked.workload)
    world = World(workload, asked.world.model, asked.world.cluster, asked.world.cost)
    config = asked.config.playing
    return Oracle(
        world, asked.policy, kinds_of(together), batches=config.batches, seed=asked.config.seed, grain=config.grain
    )


def team_of(asked: Asked, oracle: Oracle) -> Kinds:
    """One tenant of every offer that is not late: for whom a fleet that never moves is deployed."""
    names = (offer.tenant.name for offer in asked.offers if offer.tenant.name not in asked.late)
    return tuple(sorted((oracle.kind_of.get(name, name), 1) for name in names))


def fleet_by_rules(asked: Asked, oracle: Oracle) -> Fleet[DeploymentPlan]:
    """The fleet under the rules that are asked for."""
    churn = asked.config.churn
    admit = churn.admit
    period = some_seconds("churn.period", churn.period)
    if (churn.rule == "periodic") != (period is not None):
        raise BadInput(f"churn.period is {churn.period}, but churn.rule is {churn.rule}; periodic alone takes a period")
    redeployment = Redeployment(
        Moving(),
        seconds_of("churn.checkpoint", churn.checkpoint),
        None if churn.reshard is None else seconds_of("churn.reshard", churn.reshard),
        seconds_of("churn.warmup", churn.warmup),
    )
    decider = Decider(
        oracle,
        cast(ChurnRule, churn.rule),
        redeployment,
        Terms(churn.horizon, churn.factor, churn.plays),
        seconds_of("churn.start", churn.start),
        seconds_of("churn.planning", churn.planning),
        team_of(asked, oracle) if churn.rule == "never" else None,
    )
    admission = Admission(
        oracle, cast(Order, admit.order), admit.most, admit.slowdown, admit.backfill, admit.keeps_plan
    )
    return fleet_of(oracle, admission, decider, period_seconds=period)


def ground_of(oracle: Oracle, team: Kinds) -> Ground:
    """By the plan of the whole team, or where it does not fit together, by every tenant's own."""
    try:
        sets: tuple[Kinds, ...] = (team,)
        oracle.plan(team)
    except Infeasible:
        sets = tuple((each,) for each in team)
    bases, notes, beyond, cost = list[Basis](), dict[str, None](), False, oracle.world.cost
    for kinds in sets:
        plan, judge = oracle.plan(kinds), oracle.judge(kinds)
        status, said = standing(plan, cost)
        bases.append(cast(Basis, status))
        notes.update(dict.fromkeys(said))
        step = step_plan(judge.batches[0], plan, judge.batching, judge.dispatch, cost)
        beyond = beyond or counted((plan, step), cost)["extrapolated"]
    basis = weakest(bases)
    return Ground(basis, beyond, systematic_sigma(basis), tuple(notes))


def factors_of(asked: Asked, ground: Ground) -> tuple[float, ...]:
    """By how much all prices are off in each seed."""
    sigma = ground.sigma if asked.config.playing.sigma is None else asked.config.playing.sigma
    if not 0 <= sigma < math.inf:
        raise BadInput(f"playing.sigma is {sigma}; it must be a finite number, 0 or more")
    streams = (np.random.default_rng(np.random.SeedSequence([seed, STREAM])) for seed in asked.seeds)
    return tuple(asked.work_factor * math.exp(sigma * float(stream.standard_normal())) for stream in streams)
