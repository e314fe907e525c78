"""From a trace's jobs to arrivals: a trace knows when and how large, the offers say what is trained."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lobra.batch import Array
from lobra.errors import BadInput
from workloads.arrivals.drawing import arrival_of
from workloads.arrivals.nouns import Arrival, Budget, Offer, check_names
from workloads.arrivals.trace import TraceJob


def matched(
    jobs: Sequence[TraceJob], offers: Sequence[Offer], step_gpu_seconds: Mapping[str, float], seed: int
) -> tuple[Arrival, ...]:
    """An arrival for each job, of the offer that its kind names, else drawn by weight.

    A job sized in GPU seconds trains as many steps as its offer does in that time: `step_gpu_seconds` by the offer's
    name. Draws are keyed by the job's line, so leaving out a line changes no other.
    """
    check_names((offer.tenant.name for offer in offers), "offers")
    by_name = {offer.tenant.name: offer for offer in offers}
    weights = np.array([offer.weight for offer in offers])
    bounds = np.cumsum(weights / weights.sum())
    made = []
    for number, job in enumerate(jobs):
        offer = _named(job, by_name) if job.kind else offers[_draw(bounds, seed, job.line)]
        arrival = arrival_of(offer, number, job.at_seconds, _budget(job, offer, step_gpu_seconds), job.owner)
        deadline = offer.deadline_seconds if job.deadline_seconds is None else job.deadline_seconds
        made.append(replace(arrival, deadline_seconds=deadline, priority=offer.priority + job.priority))
    return tuple(made)


def _named(job: TraceJob, offers: Mapping[str, Offer]) -> Offer:
    if job.kind not in offers:
        raise BadInput(f"trace, line {job.line}: there is no offer '{job.kind}'; choose one of {', '.join(offers)}")
    return offers[job.kind]


def _draw(bounds: Array, seed: int, line: int) -> int:
    stream = np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(b"trace offers"), line]))
    return min(int(np.searchsorted(bounds, stream.random(), "right")), len(bounds) - 1)


def _budget(job: TraceJob, offer: Offer, step_gpu_seconds: Mapping[str, float]) -> Budget:
    if job.budget is not None:
        return job.budget
    name = offer.tenant.name
    if not step_gpu_seconds.get(name, 0.0) > 0:
        raise BadInput(
            f"trace, line {job.line}: it is sized in GPU seconds, and what a step of '{name}' takes is unknown"
        )
    assert job.gpu_seconds is not None  # a job has either
    return Budget(max(1.0, round(job.gpu_seconds / step_gpu_seconds[name])))
