"""A workload whose batches are sampled: a source for each tenant, one seed, one way to draw."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lobra.batch import Batch, Histogram
from lobra.errors import BadInput
from lobra.spec import Tenant, check_tenants
from workloads.overlong import admit, admitted_histogram, refuse_certain
from workloads.samplers import Sampler, check_sampler
from workloads.sources import Source
from workloads.streams import Stream


@dataclass(frozen=True, slots=True, eq=False)
class SampledWorkload:
    """Tenants and the sequences they bring; implements `lobra.protocols.Workload`."""

    tenants: tuple[Tenant, ...]
    sources: tuple[Source, ...]  # one a tenant
    seed: int = 0
    sampler: Sampler = "iid"

    def __post_init__(self) -> None:
        check_tenants(self.tenants)
        check_sampler(self.sampler)
        if type(self.seed) is not int or self.seed < 0:
            raise BadInput(f"seed is {self.seed!r}; it must be a whole number >= 0")
        if len(self.sources) != len(self.tenants):
            raise BadInput(f"workload: {len(self.sources)} sources for {len(self.tenants)} tenants; give one a tenant")
        for tenant, source in zip(self.tenants, self.sources, strict=True):
            if source.size is not None and source.size < tenant.batch_size:
                raise BadInput(
                    f"tenant '{tenant.name}': it has {source.size} sequences, fewer than its batch size "
                    f"{tenant.batch_size}; give more sequences, or a batch_size of at most {source.size}"
                )
            refuse_certain(tenant, source)

    @property
    def empty(self) -> tuple[int, ...]:
        """Sequences without a token, left out beforehand; a count for each tenant."""
        return tuple(source.empty for source in self.sources)

    def lengths(self, tenant: int) -> Histogram:
        """Every length that one tenant's sequences can have, over-long policy applied, with its exact probability."""
        return admitted_histogram(self.tenants[tenant], *self.sources[tenant].known())

    def batches(self, steps: int) -> Iterator[Batch]:
        """The first steps, sequences sorted by tenant. Every call gives the same; a step does not need those before."""
        for step in range(steps):
            yield self.batch(step)

    def batch(self, step: int) -> Batch:
        """One step. Infeasible where a sequence is over-long and its tenant's policy is reject."""
        admitted = [
            admit(tenant, source.draw(Stream(self.seed, tenant.name), step, tenant.batch_size, self.sampler))
            for tenant, source in zip(self.tenants, self.sources, strict=True)
        ]
        counts = [len(part.drawn.length) for part in admitted]
        return Batch(
            step,
            np.repeat(np.arange(len(admitted)), counts),
            np.concatenate([part.drawn.index for part in admitted]),
            np.concatenate([part.drawn.length for part in admitted]),
            np.concatenate([part.drawn.labels for part in admitted]),
            truncated=tuple(part.truncated for part in admitted),
            dropped=tuple(part.dropped for part in admitted),
        )

    def epochs(self, steps: int) -> tuple[float | None, ...]:
        """How often each tenant has seen its data after so many steps; None where its stream has no end."""
        pairs = zip(self.tenants, self.sources, strict=True)
        return tuple(None if source.size is None else steps * who.batch_size / source.size for who, source in pairs)

    def only(self, tenants: Sequence[int]) -> "SampledWorkload":
        """The same workload with these tenants alone, renumbered from 0; their sequences stay the same."""
        return replace(
            self,
            tenants=tuple(self.tenants[tenant] for tenant in tenants),
            sources=tuple(self.sources[tenant] for tenant in tenants),
        )
