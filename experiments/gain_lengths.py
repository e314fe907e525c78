"""Whose lengths `lobra gain` asks about: a CSV, a YAML of tenants, a shipped set of lengths, or a shipped workload."""

from dataclasses import replace
from pathlib import Path

from lobra.errors import BadInput
from lobra.spec import Tenant
from workloads.catalogue import NAMES, named_workload
from workloads.counts import read_counts
from workloads.own import own_workload
from workloads.published import dataset_task, paper_tasks
from workloads.quantiles import shipped_sources
from workloads.sampled import SampledWorkload
from workloads.sources import Endless, without_empty
from workloads.table import tabulate

SEQUENCES = 512  # a step, where a file says nothing of it
TENANT = "lengths"


def lengths_workload(given: str, *, batch_size: int | None, max_length: int, seed: int) -> SampledWorkload:
    """The workload that a word or a path stands for; longer sequences than max_length are cut.

    A CSV and a set of lengths are one tenant. BadInput where it is neither known nor readable.
    """
    for key, value in (("batch_size", batch_size), ("max_length", max_length)):
        if value is not None and value < 1:
            raise BadInput(f"{key} is {value}; it must be a whole number >= 1")
    if given in NAMES:
        return named_workload(given, seed=seed, max_length=max_length, batch_size=batch_size)
    if given in (*paper_tasks(), *shipped_sources()):
        return _set(given, batch_size, max_length, seed)
    path = Path(given)
    if not path.is_file():
        raise BadInput(
            f"lengths: {given!r} is no file and no shipped set; give a CSV with a column 'tokens', a YAML of tenants, "
            f"or one of {', '.join((*NAMES, *paper_tasks(), *shipped_sources()))}"
        )
    if path.suffix in (".yaml", ".yml"):
        return own_workload(path, seed=seed, overlong="truncate", max_length=max_length, batch_size=batch_size)
    counts = read_counts(path, "lengths")
    rows = without_empty(counts, counts, "lengths")
    limit = min(max_length, int(rows.lengths.max()))
    size = min(batch_size or SEQUENCES, rows.size)
    return SampledWorkload((Tenant(TENANT, size, limit, overlong="truncate", source=given),), (rows,), seed)


def _set(name: str, batch_size: int | None, max_length: int, seed: int) -> SampledWorkload:
    """One shipped set, as one tenant."""
    task = dataset_task(name)
    limit = min(max_length, task.context_limit)
    tenant = Tenant(TENANT, batch_size or SEQUENCES, limit, overlong="truncate", source=task.source)
    return SampledWorkload((replace(tenant, name=name),), (Endless(tabulate(task.lengths, name)),), seed)
