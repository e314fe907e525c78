"""The paper's table of max tokens, continued by the analytic model where nobody measured.

An entry of the table is what really ran, with the tenants of the paper's experiment. With recomputation, sharded
weights or tenants who need more memory than those, the entry is scaled by the ratio of the analytic model's answers:
relative to the measurement, the model's constant cancels. Recomputation never gives less than the table. For tenants
who need less the table stands: it is a safe answer, not the largest one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.memory import AnalyticMemory, adapter_parameters, round_down
from lobra.errors import BadInput
from lobra.plan import ReplicaConfig
from lobra.spec import Tenant


@dataclass(frozen=True, slots=True)
class TableMemory:
    """Measured max tokens by (tp, pp)."""

    entries: Mapping[tuple[int, int], int]
    analytic: AnalyticMemory
    measured: tuple[Tenant, ...]  # the tenants of the measurement
    strict: bool = False  # the table alone, whoever the tenants are

    def max_tokens(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> int:
        """Tokens that a micro-batch may hold; BadInput for a configuration that the table does not have."""
        base = ReplicaConfig(config.tp, config.pp)
        entry = self.entries.get((config.tp, config.pp))
        if entry is None:
            known = ", ".join(f"<{tp},{pp}>" for tp, pp in self.entries)
            raise BadInput(f"memory: the table of max tokens has no {base}; it has {known}; or take memory=analytic")
        if self.strict and config == base:
            return entry
        heavier = not self.strict and self._state(tenants) > self._state(self.measured)
        if config == base and not heavier:
            return entry
        present = tenants if heavier else self.measured
        ratio = self.analytic.tokens(config, present) / self.analytic.tokens(base, self.measured)
        return round_down(entry * ratio, self.analytic.rounding)

    def covers(self, config: ReplicaConfig) -> bool:
        """Whether the table has an entry for it."""
        return (config.tp, config.pp) in self.entries

    def notes(self, config: ReplicaConfig, tenants: Sequence[Tenant]) -> tuple[str, ...]:
        """What a reader must know of it."""
        notes = []
        if sorted(map(self._kind, tenants)) != sorted(map(self._kind, self.measured)):
            notes.append(f"max tokens measured with the paper's {len(self.measured)} tasks, not with these tenants")
            if not self.strict and self._state(tenants) > self._state(self.measured):
                notes.append("max tokens scaled down by an analytic model: these tenants' adapters need more memory")
        if config.recompute or config.fsdp > 1:
            notes.append("max tokens of recomputation and sharding: the table scaled by an analytic model")
        return tuple(notes)

    def _state(self, tenants: Sequence[Tenant]) -> int:
        return sum(adapter_parameters(self.analytic.model, tenant) for tenant in tenants)

    @staticmethod
    def _kind(tenant: Tenant) -> tuple[int, tuple[str, ...]]:
        return tenant.rank, tuple(sorted(tenant.target_modules))


def table_memory(source: Mapping[str, Any], analytic: AnalyticMemory, strict: bool = False) -> TableMemory:
    """The table of a source; what is scaled is rounded as the analytic model rounds."""
    measured = tuple(
        Tenant(name=f"measured-{number}", batch_size=1, context_limit=1, rank=source["rank"])
        for number in range(source["tenants"])
    )
    entries = {(tp, pp): tokens for tp, pp, tokens in source["entries"]}
    return TableMemory(entries, analytic, measured, strict)
