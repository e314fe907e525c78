"""Keep or re-deploy, by one of four rules on top of re-planning.

`never` keeps the running replicas as long as they can serve who is there (budgets follow for nothing); `on_change`
takes the best plan at every change, whatever it costs; `hysteresis` moves where the steps to come save a multiple of
what moving takes (policies.replanning); `periodic` keeps between decisions and takes the best plan when the period is
over. Where the running replicas cannot serve the tenants, every rule moves. Decisions for equal sets of kinds on equal
replicas are made once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from experiments.capacity.oracle import Kinds, Oracle
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, Replica
from lobra.protocols import CostModel, Workload
from lobra.spec import ClusterSpec, ModelSpec, Tenant, positive
from policies.replanning.carrying import Impossible
from policies.replanning.decision import Terms
from policies.replanning.replanner import Replanner
from sim.fleet.nouns import Cause, Verdict

Rule = Literal["never", "on_change", "hysteresis", "periodic"]
RULES: tuple[Rule, ...] = ("never", "on_change", "hysteresis", "periodic")
Price = Callable[[DeploymentPlan, DeploymentPlan], float]  # seconds of a re-deployment


@dataclass(frozen=True, slots=True)
class Redeployment:
    """What a re-deployment takes: stop and write, move what is lacking, start again; nothing where nothing moves.

    Live, GPUs keep what they hold and receive the rest (costmodel.moving); else all states are written, every GPU
    reads its share of the base model again, and the adapters follow.
    """

    moving: Price  # live, without any fixed part
    checkpoint_seconds: float = 0.0  # writing and reading adapters and optimiser states
    reshard_seconds: float | None = None  # reading the base model anew; None: live, by `moving`
    warmup_seconds: float = 0.0  # process groups, compilation, first steps

    def __post_init__(self) -> None:
        for name in ("checkpoint_seconds", "reshard_seconds", "warmup_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise BadInput(f"re-deployment: {name} is {value}; it must be a finite number, 0 or more")

    def __call__(self, before: DeploymentPlan, after: DeploymentPlan) -> float:
        """Seconds from the one to the other."""
        if _places(before) == _places(after):
            return 0.0
        moved = self.moving(before, after) if self.reshard_seconds is None else self.reshard_seconds
        return self.checkpoint_seconds + moved + self.warmup_seconds


@dataclass(frozen=True, slots=True, eq=False)
class Decider:
    """What the fleet asks at every change."""

    oracle: Oracle
    rule: Rule
    price: Price
    terms: Terms = Terms()  # noqa: RUF009  # frozen, so a shared default is safe; of hysteresis alone
    start_seconds: float = 0.0  # of the first deployment: reading the base model, warm-up
    planning_seconds: float = 0.0  # of every re-planning that the running steps cannot hide
    first: Kinds | None = None  # for whom the first plan is made, whoever is there; None: for who is there
    _known: dict[tuple[tuple[Replica, ...], tuple[Tenant, ...], Kinds, bool], Verdict[DeploymentPlan]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise BadInput(f"re-deployment: rule is {self.rule!r}; choose {', '.join(RULES)}")
        positive("re-deployment", start=1 + self.start_seconds, planning=1 + self.planning_seconds)

    def __call__(
        self, now: float, running: DeploymentPlan | None, jobs: tuple[str, ...], cause: Cause, /
    ) -> Verdict[DeploymentPlan]:
        """The plan for these tenants; Infeasible where there is none."""
        del now
        kinds = self.oracle.kinds(jobs)
        if running is None:
            plan = self._first(kinds)
            return Verdict(plan, True, self.start_seconds, self.planning_seconds, "nothing was deployed")
        keep = self.rule == "never" or (self.rule == "periodic" and cause == "change")
        key = (running.replicas, running.tenants, kinds, keep)
        if key not in self._known:
            self._known[key] = self._keep(running, kinds) if keep else self._replan(running, kinds)
        return self._known[key]

    def _first(self, kinds: Kinds) -> DeploymentPlan:
        """The plan of `first`, if it can serve these."""
        if self.first is not None and self.oracle.plannable(self.first):
            carried = self.oracle.carried(self.oracle.plan(self.first), kinds)
            if not isinstance(carried, Impossible):
                return carried
        return self.oracle.plan(kinds)

    def _keep(self, running: DeploymentPlan, kinds: Kinds) -> Verdict[DeploymentPlan]:
        """The running replicas where they can serve these, else the best plan."""
        kept = self.oracle.carried(running, kinds)
        if not isinstance(kept, Impossible):
            return Verdict(kept, False, reason=f"{self.rule}: the running replicas go on")
        fresh = self.oracle.plan(kinds)
        return Verdict(fresh, True, self.price(running, fresh), self.planning_seconds, kept.reason)

    def _replan(self, running: DeploymentPlan, kinds: Kinds) -> Verdict[DeploymentPlan]:
        terms = self.terms if self.rule == "hysteresis" else replace(self.terms, factor=0.0, plays=0)
        planner = _Known(self.oracle.plan(kinds))
        oracle = self.oracle
        decision = Replanner(running, planner, oracle.judge(kinds), self.price, terms, oracle.longest).decide(
            oracle.workload(kinds)
        )
        chosen = decision.chosen
        moved = _places(chosen.plan) != _places(running)
        return Verdict(chosen.plan, moved, chosen.moving_seconds, self.planning_seconds, decision.reason())


@dataclass(frozen=True, slots=True)
class _Known:
    """A planner whose plan is known already."""

    plan_made: DeploymentPlan

    def plan(self, workload: Workload, model: ModelSpec, cluster: ClusterSpec, cost: CostModel) -> DeploymentPlan:
        """That plan."""
        del workload, model, cluster, cost
        return self.plan_made


def _places(plan: DeploymentPlan) -> list[tuple[object, ...]]:
    """What a move would change: shapes, GPUs and layers; recomputation and budgets move nothing."""
    return sorted(
        (each.gpus, each.config.tp, each.config.pp, each.config.fsdp, each.layers or ()) for each in plan.replicas
    )
