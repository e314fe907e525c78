"""Who comes when, in each seed: all together, by a law, or by a trace."""

import math
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.capacity.oracle import Oracle
from experiments.capacity.weights import weights
from experiments.whatif.asking import Asked
from experiments.whatif.words import some_seconds
from lobra.errors import BadInput
from workloads.arrivals.drawing import burst_times, drawn, poisson_times
from workloads.arrivals.matching import matched
from workloads.arrivals.nouns import Arrival
from workloads.arrivals.trace import TraceJob, TraceReport, read_trace

KINDS = ("together", "poisson", "bursts", "trace")


def arrivals_of(asked: Asked) -> tuple[tuple[Arrival, ...], ...]:
    """The arrivals of every seed; BadInput where the keys do not agree, or nobody ever comes."""
    config = asked.config.arrivals
    if config.kind not in KINDS:
        raise BadInput(f"arrivals.kind is {config.kind!r}; choose {', '.join(KINDS)}")
    if config.kind == "together":
        return tuple(_together(asked, seed) for seed in asked.seeds)
    if config.kind == "trace":
        jobs, _ = trace_of(asked)
        takes = _step_gpu_seconds(asked) if any(job.budget is None for job in jobs) else {}
        return tuple(matched(jobs, asked.offers, takes, seed) for seed in asked.seeds)
    if config.per_hour is None:
        raise BadInput(f"arrivals.per_hour: a value is missing; arrivals.kind={config.kind} needs it")
    horizon = some_seconds("arrivals.horizon", config.horizon)
    assert horizon is not None
    made = []
    for seed in asked.seeds:
        if config.kind == "poisson":
            times = poisson_times(config.per_hour, horizon, seed)
        else:
            times = burst_times(config.per_hour, horizon, seed, config.variation)
        made.append(drawn(times, asked.offers, seed))
    if not all(made):
        raise BadInput(
            f"arrivals: at {config.per_hour:g} an hour nobody comes within {config.horizon} in some seed; "
            "give a longer horizon or more an hour"
        )
    return tuple(made)


def trace_of(asked: Asked) -> tuple[tuple[TraceJob, ...], TraceReport]:
    """The jobs of the trace, and what came of its lines."""
    config = asked.config.arrivals
    if config.file is None:
        raise BadInput("arrivals.file: a value is missing; give the CSV of the trace")
    if config.most is not None and config.most < 1:
        raise BadInput(f"arrivals.most is {config.most}; at least 1 job must come")
    if config.rejected not in ("refuse", "skip"):
        raise BadInput(f"arrivals.rejected is {config.rejected!r}; choose refuse or skip")
    jobs, report = read_trace(Path(config.file), rejected="skip" if config.rejected == "skip" else "refuse")
    return jobs[: config.most], report


def _together(asked: Asked, seed: int) -> tuple[Arrival, ...]:
    """Everybody at the beginning, but for who is late; budgets vary by streams keyed by (seed, tenant)."""
    made = []
    for offer in asked.offers:
        budget = offer.budget
        if offer.budget_sigma > 0:
            name = zlib.crc32(offer.tenant.name.encode())
            stream = np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(b"team budgets"), name]))
            amount = budget.amount * math.exp(offer.budget_sigma * stream.standard_normal())
            budget = replace(budget, amount=max(1.0, amount))
        at = asked.late.get(offer.tenant.name, 0.0)
        made.append(Arrival(offer.tenant, at, budget, offer.deadline_seconds, offer.priority))
    return tuple(made)


def _step_gpu_seconds(asked: Asked) -> dict[str, float]:
    """What a step of each offer takes at its cheapest feasible shapes: how a job sized in GPU seconds becomes steps."""
    names = tuple(offer.tenant.name for offer in asked.offers)
    oracle = Oracle(asked.world, asked.policy, dict(zip(names, names, strict=True)), batches=1, seed=asked.seeds[0])
    return dict(weights(oracle, "work")(names))
