"""Small runs of the executor for the public cases: on one rank of this process, or on the pool."""

import torch

from distributed.pool import shared_pool
from distributed.worlds import CONFIG, LAYOUTS, Job, microbatch, plan_of, random_state
from executor.engine import Engine
from lobra.plan import StepPlan
from lobra.spec import SequenceRef, Tenant

ONE = LAYOUTS["TP1"]
PAIR = ((1, 1, None), (1, 1, None))
A = Tenant("a", 4, 256, rank=4, alpha=8.0, learning_rate=1e-2)
B = Tenant("b", 4, 256, rank=8, alpha=8.0, learning_rate=1e-2)


def refs(tenant, *lengths, first=0):
    return [SequenceRef(tenant, first + i, length, length) for i, length in enumerate(lengths)]


def step(number, *parts, updates=None, packed=True):
    """A step plan for one replica; each part is the sequences of one micro-batch."""
    return StepPlan(number, (tuple(microbatch(part, packed=packed) for part in parts),), updates)


def alone(tenants, *steps, config=CONFIG, settings=None, states=True):
    """Play steps on one rank of this process; the engine and the results."""
    job = Job(plan_of(ONE, tenants, config), steps, config)
    engine = Engine(config, job.weights(), job.tokens(), settings or job.settings)
    engine.deploy(job.plan)
    for tenant in tenants if states else ():
        engine.load(random_state(tenant, config))
    return engine, [engine.run_step(each) for each in steps]


def tensors(engine, name, kind="value"):
    return engine.export(name).tensors[kind]


def same(found, expected, error=1e-12):
    """Equal to that share of each matrix's largest element."""
    return all(
        float((found[name] - value).abs().max()) <= error * float(value.abs().max()) for name, value in expected.items()
    )


def updated_alike(found, expected, rate):
    """Equal to a billionth of the learning rate: AdamW turns rounding of near-zero gradients into steps."""
    return all(float((found[name] - value).abs().max()) < 1e-9 * rate for name, value in expected.items())


def equal(found, expected):
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in found)


def together(layout, tenants, *steps, config=CONFIG):
    return shared_pool().run("distributed.jobs", "train", Job(plan_of(layout, tenants, config), steps, config))
