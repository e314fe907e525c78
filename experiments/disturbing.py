"""What disturbs a simulation: noise by its own knobs or as `lobra fit` found it, shared cores, re-deployments."""

from pathlib import Path

from costmodel.fitting import ITEM_BYTES
from costmodel.moving import Moving, Reloading
from costmodel.noise import read_noise
from costmodel.sharing import alone, core_factors
from costmodel.sources import read_source
from experiments import schema
from lobra.errors import BadInput
from lobra.protocols import CostModel
from sim.cores import Sharing
from sim.disturbance import Noise


def noise_of(config: schema.Noise, seed: int, file: str | None) -> Noise | None:
    """The noise of a run; None for none. file: of fitted coefficients."""
    sigma, probability, factor = config.jitter_sigma, config.straggler_probability, config.straggler_factor
    if config.fitted:
        if file is None:
            raise BadInput("backend.noise.fitted: it needs cost.file=FILE, which `lobra fit` wrote")
        if (sigma, probability, factor) != (0.0, 0.0, 1.0):
            raise BadInput("backend.noise.fitted: it takes the place of the other three; leave them out")
        found = read_noise(read_source(Path(file), "floor_form"))
        sigma, probability, factor = found.jitter_sigma, found.straggler_probability, found.straggler_factor
    noise = Noise(seed, sigma, probability, factor)
    return None if sigma == 0 and probability == 0 else noise


def redeployment(fixed_seconds: float, file: str | None) -> Moving | Reloading:
    """What a re-deployment takes: as the executor was timed, where the fitted file tells; else what the links carry."""
    source = read_source(Path(file), "floor_form") if file is not None else {}
    seconds = source.get("deploy_seconds_per_gib")
    if seconds is None:
        return Moving(fixed_seconds)
    item = ITEM_BYTES.get(str(source.get("dtype")))
    if item is None:
        raise BadInput(f"cost file: dtype is {source.get('dtype')!r}; choose {', '.join(ITEM_BYTES)}")
    return Reloading(float(seconds), item, Moving(fixed_seconds).fixed_seconds)


def on_shared_cores(cost: CostModel, file: str | None) -> tuple[CostModel, Sharing]:
    """Prices of ranks alone, and how they slow one another; file: of fitted coefficients."""
    if file is None:
        raise BadInput("backend.share_cores: it needs cost=fitted cost.file=FILE, which `lobra fit` wrote")
    source = read_source(Path(file), "floor_form")
    ranks, factors = core_factors(source)
    return alone(cost, source), Sharing(ranks, factors)
