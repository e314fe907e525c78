"""The oracle: the best plan of a tenant set and what its steps take, each worked out once.

Tenants of one kind draw from the same lengths with the same adapter, so a set is known by how many of each kind it
holds. Every question is asked for stand-ins, the first tenants of each kind in the workload: whoever comes, the same
multiset of kinds has the same plan and the same seconds, and a week of churn asks for each once. Plans therefore name
the stand-ins; `named` puts the real tenants back. Steps are timed by the closed form on a few planning batches.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from experiments.capacity.timing import timed
from experiments.walk import World
from lobra.errors import BadInput, Infeasible
from lobra.plan import DeploymentPlan, Replica
from lobra.protocols import Workload
from policies.deployment.expected import Longest, longest_sequence, planning_batches
from policies.deployment.judge import Judge, within_reach
from policies.policy import Policy
from policies.replanning.carrying import Impossible, carried
from sim.fleet.nouns import StepTime

Kinds = tuple[tuple[str, int], ...]  # how many of each kind, by name


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """Answers for every subset of the world's tenants."""

    world: World  # its workload holds everybody who will ever come
    policy: Policy
    kind_of: Mapping[str, str]  # by tenant; tenants of one kind must be alike but for their names
    batches: int = 4  # played ones a tenant set
    seed: int = 0
    longest: Longest = "limit"
    grain: int | None = None  # plans are sought for at most about so many tenants in the same mix; None: for all
    _plans: dict[Kinds, DeploymentPlan | str] = field(default_factory=dict)  # or why there is none
    _times: dict[tuple[Kinds, tuple[Replica, ...]], StepTime] = field(default_factory=dict)
    _judges: dict[Kinds, Judge] = field(default_factory=dict)
    _fits: dict[Kinds, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.grain is not None and self.grain < 1:
            raise BadInput(f"capacity: grain is {self.grain}; plans are sought for at least 1 tenant")
        for tenant in self.world.workload.tenants:
            if tenant.name not in self.kind_of:
                raise BadInput(f"capacity: tenant '{tenant.name}' has no kind; name one")

    def kinds(self, tenants: Sequence[str]) -> Kinds:
        """How many of each kind."""
        return tuple(sorted(Counter(self.kind_of[name] for name in tenants).items()))

    def workload(self, kinds: Kinds) -> Workload:
        """The stand-ins of these kinds."""
        wanted, chosen = Counter(dict(kinds)), []
        for number, tenant in enumerate(self.world.workload.tenants):
            kind = self.kind_of[tenant.name]
            if wanted[kind] > 0:
                wanted[kind] -= 1
                chosen.append(number)
        if not chosen or wanted.total():
            raise BadInput(f"capacity: the workload has not as many tenants as asked for: {kinds}")
        return self.world.workload.only(chosen)

    def judge(self, kinds: Kinds) -> Judge:
        """What judges plans for these kinds, on the same batches every time."""
        if kinds not in self._judges:
            drawn = within_reach(planning_batches(self.workload(kinds), self.batches, self.seed))
            self._judges[kinds] = Judge(drawn, self.policy.batching, self.policy.dispatch, self.world.cost)
        return self._judges[kinds]

    def plan(self, kinds: Kinds) -> DeploymentPlan:
        """The policy's own plan, as if nothing ran; Infeasible where there is none."""
        if kinds not in self._plans:
            try:
                self._plans[kinds] = self._made(kinds)
            except Infeasible as error:
                self._plans[kinds] = str(error)
        found = self._plans[kinds]
        if isinstance(found, str):
            raise Infeasible(found)
        return found

    def _made(self, kinds: Kinds) -> DeploymentPlan:
        """Of the whole set; with a grain, of a smaller one of the same mix, budgets refitted."""
        mix = coarse(kinds, self.grain)
        if mix != kinds:
            refitted = self.carried(self.plan(mix), kinds)
            if not isinstance(refitted, Impossible):
                return refitted
        world = self.world
        return self.policy.deployment.plan(self.workload(kinds), world.model, world.cluster, world.cost)

    def carried(self, running: DeploymentPlan, kinds: Kinds) -> DeploymentPlan | Impossible:
        """The running plan for these kinds, budgets fitted to who is there, or why it cannot serve them."""
        return carried(running, self.workload(kinds), self.judge(kinds), self.longest)

    def step_time(self, tenants: tuple[str, ...], plan: DeploymentPlan) -> StepTime:
        """What the fleet asks: seconds and split of a step of these tenants on this plan."""
        return self.time(self.kinds(tenants), plan)

    def time(self, kinds: Kinds, plan: DeploymentPlan) -> StepTime:
        """The same by kinds."""
        key = (kinds, plan.replicas)
        if key not in self._times:
            self._times[key] = timed(plan, self.judge(kinds))
        return self._times[key]

    def alone_seconds(self, tenant: str) -> float:
        """Of a step of this tenant by itself, on its own best plan of the whole cluster."""
        kinds = self.kinds((tenant,))
        return self.time(kinds, self.plan(kinds)).mean

    def fits(self, kinds: Kinds) -> bool:
        """Whether some plan serves these kinds: by one configuration's memory, else by asking the planner."""
        if kinds not in self._fits:
            self._fits[kinds] = self._held(kinds) or self.plannable(kinds)
        return self._fits[kinds]

    def _held(self, kinds: Kinds) -> bool:
        """Whether one configuration holds the longest sequence beside everybody's adapters."""
        workload, cost = self.workload(kinds), self.world.cost
        need = longest_sequence(workload, self.longest).tokens
        room = self.world.cluster.gpus
        return any(cost.max_tokens(each, workload.tenants) >= need for each in cost.configs() if each.gpus <= room)

    def plannable(self, kinds: Kinds) -> bool:
        """Whether the planner finds a plan for these kinds."""
        try:
            self.plan(kinds)
        except Infeasible:
            return False
        return True

    def named(self, plan: DeploymentPlan, tenants: Sequence[str]) -> DeploymentPlan:
        """The plan with the real tenants, in the order of the workload, instead of their stand-ins."""
        wanted = set(tenants)
        return replace(plan, tenants=tuple(each for each in self.world.workload.tenants if each.name in wanted))

    def refuse_unservable(self) -> None:
        """Infeasible where one of the tenants fits nowhere even alone: it would wait for ever."""
        for kind in sorted(set(self.kind_of.values())):
            if self.fits(((kind, 1),)):
                continue
            try:
                self.plan(((kind, 1),))
            except Infeasible as error:
                raise Infeasible(f"tenants of kind '{kind}' can never be admitted: {error}") from None


def coarse(kinds: Kinds, grain: int | None) -> Kinds:
    """About the same mix of no more than about `grain` tenants: counts in proportion, rounded up."""
    total = sum(count for _, count in kinds)
    if grain is None or total <= grain:
        return kinds
    return tuple((kind, -(-count * grain // total)) for kind, count in kinds)
