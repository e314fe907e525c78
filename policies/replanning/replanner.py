"""Stay or move: the best plan for changed tenants with the price of getting there counted.

The idea: a better plan is worth its move only if what it saves over the steps to come exceeds what moving costs, by a
factor that keeps a run from moving to and fro (hysteresis). So candidates are compared by

    horizon * (seconds of a step) + factor * (seconds of moving)

The running plan is always a candidate, and moves nothing. The planner's own best is another, in the placement that
moves least of those that keeping.py offers. From the better of both the search goes on by exchanges, in which the
fewest replicas of one kind give their GPUs to another kind, so plans between the two are found as well. Steps are
judged by the very batching and dispatch that run, on the planner's batches. Cost: one plan and at most `plays` played
ones. Limits: the horizon is the user's guess, and tenants who will come later are not foreseen.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from math import inf, lcm, nextafter

from lobra.errors import BadInput
from lobra.plan import Certificate, DeploymentPlan, Replica
from lobra.protocols import DeploymentPolicy, Workload
from lobra.spec import Tenant
from policies.deployment.expected import Longest, longest_sequence
from policies.deployment.judge import Judge
from policies.deployment.placement import Kind
from policies.replanning.carrying import Impossible, carried, check_running
from policies.replanning.decision import Decision, Option, Terms
from policies.replanning.keeping import placements

Moving = Callable[[DeploymentPlan, DeploymentPlan], float]  # seconds of a re-deployment, from the one to the other
Counts = tuple[tuple[Kind, int], ...]


@dataclass(frozen=True, slots=True)
class Replanner:
    """Plans anew where something runs already."""

    running: DeploymentPlan
    planner: DeploymentPolicy  # who makes the best plan for a cluster on which nothing runs
    judge: Judge  # on batches of the new tenants
    moving: Moving
    terms: Terms = Terms()  # noqa: RUF009  # frozen, so a shared default is safe
    longest: Longest = "limit"

    def decide(self, workload: Workload) -> Decision:
        """The best of staying, the planner's plan, and what lies between; ties stay.

        Infeasible where these tenants cannot be served at all; BadInput where one that stays was changed.
        """
        running, terms = self.running, self.terms
        check_running(running, workload, running.model, running.cluster)
        stay, impossible = self._stay(workload)
        made = self.planner.plan(workload, running.model, running.cluster, self.judge.cost)
        offers = [*placements(counts_of(made.replicas), running.replicas, running.cluster), made.replicas]
        placed = self._least_moving(offers, made.tenants)
        assert placed is not None  # the planner's own places are among the offers
        fresh = self._option(placed)
        best = fresh if stay is None or fresh.total(terms) < stay.total(terms) else stay
        best = self._between(best, fresh, longest_sequence(workload, self.longest).tokens)
        chosen = replace(best, plan=certified(best.plan, made.certificate, best.step_seconds))
        return Decision(chosen if best is stay else stay, impossible, fresh, chosen, terms)

    def _stay(self, workload: Workload) -> tuple[Option | None, str]:
        """The running plan with these tenants, or why it cannot serve them."""
        plan = carried(self.running, workload, self.judge, self.longest)
        if isinstance(plan, Impossible):
            return None, plan.reason
        seconds = self.judge.seconds(plan)
        if seconds == inf:
            return None, "some sequence of the planning batches finds no place on its replicas"
        return Option(plan, seconds, 0.0), ""

    def _least_moving(
        self, offers: Iterable[tuple[Replica, ...]], tenants: tuple[Tenant, ...]
    ) -> DeploymentPlan | None:
        """The plan with replicas in the places that move least, the first of equals; None where there are none."""
        priced: list[tuple[float, int, DeploymentPlan]] = []
        for replicas in offers:
            try:
                plan = DeploymentPlan(self.running.model, self.running.cluster, tenants, replicas)
            except BadInput:  # sharded weights that no longer find enough equal replicas
                continue
            priced.append((self.moving(self.running, plan), len(priced), plan))
        return min(priced)[2] if priced else None

    def _option(self, plan: DeploymentPlan, at_most: float = inf) -> Option:
        """The plan with its price; infinite seconds where it is no faster than `at_most`."""
        return Option(plan, self.judge.seconds(plan, at_most), self.moving(self.running, plan))

    def _between(self, best: Option, fresh: Option, longest: int) -> Option:
        """Exchanges from the best so far, the first that helps each time, until none does or enough was played."""
        kinds = sorted({kind for one in (best, fresh) for kind, _ in counts_of(one.plan.replicas)})
        largest = max(replica.budget for replica in fresh.plan.replicas)
        need = longest if longest <= largest else 0  # where replicas share micro-batches no single one must hold it
        plays, seen, improved = self.terms.plays, set[Counts](), True
        while improved:
            improved = False
            for counts in neighbours(counts_of(best.plan.replicas), kinds, need):
                if counts in seen:
                    continue
                if plays == 0:
                    return best
                seen.add(counts)
                plays -= 1
                found = self._better(counts, best)
                if found is not None:
                    best, improved = found, True
                    break
        return best

    def _better(self, counts: Counts, best: Option) -> Option | None:
        """These replicas in the places that move least, if that beats the best."""
        offers = placements(counts, self.running.replicas, self.running.cluster)
        plan = self._least_moving(offers, best.plan.tenants)
        if plan is None:
            return None
        terms = self.terms
        at_most = (best.total(terms) - terms.factor * self.moving(self.running, plan)) / terms.horizon
        if at_most <= 0:
            return None
        found = self._option(plan, nextafter(at_most, 0.0))
        return found if found.total(terms) < best.total(terms) else None


def neighbours(counts: Counts, kinds: Iterable[Kind], need: int) -> Iterator[Counts]:
    """Counts after the fewest replicas of one kind gave their GPUs to another; some replica holds `need` tokens."""
    known = dict(counts)
    for giver, taker in permutations(kinds, 2):
        moved = lcm(giver.config.gpus, taker.config.gpus)
        left = known.get(giver, 0) - moved // giver.config.gpus
        if left < 0:
            continue
        changed = known | {giver: left, taker: known.get(taker, 0) + moved // taker.config.gpus}
        present = tuple(sorted((kind, count) for kind, count in changed.items() if count))
        if max(kind.budget for kind, _ in present) >= need:
            yield present


def counts_of(replicas: Iterable[Replica]) -> Counts:
    """How many replicas of each kind."""
    return tuple(sorted(Counter(Kind(replica.config, replica.budget) for replica in replicas).items()))


def certified(plan: DeploymentPlan, certificate: Certificate | None, seconds: float) -> DeploymentPlan:
    """The plan with the planner's bound and its own seconds: how far it is from a cluster on which nothing runs."""
    return replace(plan, certificate=None if certificate is None else replace(certificate, expected_seconds=seconds))
