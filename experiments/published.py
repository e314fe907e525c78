"""Published plans as a deployment policy: one for everybody, or one for each tenant that trains alone.

Idea: replay what the paper's authors deployed, to compare estimates on equal plans. Source: their appendix, see
`conf/policy/deployment/paper.yaml`. Limits: a plan suits the cluster and the tenants it was made for, and is refused
where it does not fit.
"""

from dataclasses import dataclass, replace

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.protocols import CostModel, Workload
from lobra.spec import ClusterSpec, ModelSpec
from policies.deployment.fixed import Fixed

OTHER = "other"  # every tenant that is not named


@dataclass(frozen=True, slots=True)
class Published:
    """The plan of a model and system; of a single tenant, its own."""

    system: str
    plans: dict[str, dict[str, str]]  # model -> system -> replicas
    tenants: dict[str, dict[str, str]]  # model -> tenant -> replicas
    form: Fixed  # everything but the replicas

    def plan(self, workload: Workload, model: ModelSpec, cluster: ClusterSpec, cost: CostModel) -> DeploymentPlan:
        """The plan as published; BadInput where none is, or where it does not fit this cluster."""
        found = self._find(workload, model)
        if found is None:
            raise BadInput(
                f"policy.deployment: no plan of '{self.system}' is published for model '{model.name}'; "
                "use policy/deployment=homogeneous or heterogeneous, or leave this policy out"
            )
        return replace(self.form, replicas=found).plan(workload, model, cluster, cost)

    def _find(self, workload: Workload, model: ModelSpec) -> str | None:
        if self.system != "sequential":
            return self.plans.get(model.name, {}).get(self.system)
        known = self.tenants.get(model.name, {})
        if len(workload.tenants) != 1:
            return known.get(OTHER)
        return known.get(workload.tenants[0].name, known.get(OTHER))
