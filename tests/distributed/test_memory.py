"""The counted memory model beside what ranks really keep under tensor parallelism and in pipelines."""

import pytest

from costmodel.memory import in_flight
from costmodel.memory_kept import kept, stage_kept
from distributed.pool import Pool
from distributed.worlds import Job, plan_of
from executor.settings import Settings
from lobra.plan import MicroBatch, StepPlan
from lobra.schedule import stage_sizes
from lobra.spec import SequenceRef, Tenant

TENANT = Tenant("a", 4, 256, rank=6, dropout=0.1)
TOKENS = 64


def measured(pool: Pool, tp: int, pp: int, recompute: int) -> list[float]:
    """Bytes a token of each stage's first rank: four equal micro-batches, float32."""
    plan = plan_of(((tp, pp, None),), (TENANT,), recompute=recompute)
    work = tuple(MicroBatch(((SequenceRef(0, n, TOKENS, TOKENS),),), TOKENS) for n in range(4))
    job = Job(plan, (StepPlan(0, (work,)),), settings=Settings(dtype="float32"), fresh=True)
    found = pool.run("distributed.jobs", "kept_bytes", job)
    return [found[stage * tp] / TOKENS for stage in range(pp)]


def counted(tp: int, pp: int, recompute: int) -> list[float]:
    model = plan_of(((tp, pp, None),)).model
    part = kept(model, (TENANT,), tp, item=4)
    found = []
    for stage, layers in enumerate(stage_sizes(model.layers, pp)):
        first, last = stage == 0, stage == pp - 1
        whole = stage_kept(part, layers, min(layers, recompute), first=first, last=last)
        output = 0.0 if last else part.output  # what a stage sent is saved only while its own backward runs
        found.append(in_flight(stage, pp, 4) * (whole - output) + output)
    return found


@pytest.mark.parametrize("recompute", [0, 2])
@pytest.mark.parametrize("tp", [2, 4])
def test_tensor_parallel_ranks_keep_what_is_counted_to_the_byte(pool: Pool, tp, recompute):
    assert measured(pool, tp, 1, recompute) == pytest.approx(counted(tp, 1, recompute), rel=1e-9)


@pytest.mark.parametrize(("tp", "pp"), [(1, 2), (2, 2), (1, 4)])
def test_stages_of_a_pipeline_keep_it_for_every_micro_batch_in_flight(pool: Pool, tp, pp):
    assert measured(pool, tp, pp, 0) == pytest.approx(counted(tp, pp, 0), rel=1e-9)
