"""Who trains together: everybody, or each tenant alone, one after another."""

from dataclasses import dataclass

from lobra.protocols import Workload


@dataclass(frozen=True, slots=True)
class Together:
    """All tenants share every step (joint training)."""

    def groups(self, workload: Workload) -> tuple[Workload, ...]:
        """One group of everybody."""
        return (workload,)


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Each tenant has the whole cluster to itself; a step of all is the sum of their steps."""

    def groups(self, workload: Workload) -> tuple[Workload, ...]:
        """One group a tenant, in their order."""
        return tuple(workload.only([tenant]) for tenant in range(len(workload.tenants)))
