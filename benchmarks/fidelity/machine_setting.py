"""The setting of this machine's row: the demonstration's model and four mixed tenants, and policies that differ."""

from pathlib import Path

from experiments.fitting import NAME, fit
from experiments.schema import Cluster, Cost, Model, OwnWorkload, Profile, World
from experiments.schema_executor import Fit, Grid, Tenants, Torch

POLICIES = ("task_fused", "length_based", "lobra_sequential", "task_fused_packed", "lobra", "lobra_packed")
LARGEST = 1024  # tokens of a micro-batch, in the profile and in plans
PACKS = ([64, 32, 16, 8], [200, 20, 20, 16], [120, 80, 60, 60, 50, 40, 40, 30, 30])
SEED = 20  # of the batches


def profile_config(ranks: int, repeats: int) -> Profile:
    """What is profiled: lengths and rows on a grid, not those of any batch."""
    grid = Grid(
        tp=[1, 2], lengths=[16, 64, 256, 512], rows=[1, 2, 4], packs=list(PACKS), largest=LARGEST, repeats=repeats
    )
    return Profile(Model("demo"), Cluster("cpu", 1, ranks), Torch(), grid, Tenants(4, 8))


def world_config(ranks: int, file: Path) -> World:
    """The demonstration's tenants on this machine, priced by a fitted file."""
    workload = OwnWorkload(file="shipped:demo4.yaml")
    return World(Model("demo"), Cluster("cpu", 1, ranks), workload, Cost("fitted", file=str(file)), seed=SEED)


def fitted(samples: Path, folder: Path) -> Path:
    """`lobra fit`; the coefficients' file."""
    folder.mkdir(parents=True, exist_ok=True)
    fit(Fit(samples=str(samples), max_tokens=LARGEST), folder)
    return folder / NAME
