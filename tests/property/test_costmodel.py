"""Laws of every cost model: one price however it is asked, and more work is never cheaper."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toys
from costmodel import cluster_spec, cost_model, model_spec
from costmodel.knotted import KnottedCost
from lobra.plan import Replica, ReplicaConfig, Shape

SEVEN = cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8), form="floor")
KNOTS = cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8))
PAPER = cost_model(model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8), form="paper")
PLAYED = cost_model(model_spec("llama2_70b"), cluster_spec("a800_80gb", 8, 8))
SEVENTY = PLAYED.layered
HEADLESS = replace(SEVENTY, head={})
LAYERED = st.sampled_from([SEVEN, HEADLESS, SEVENTY])
MONOTONE = st.sampled_from([SEVEN, SEVENTY, KNOTS, PLAYED])

tps, pps = st.sampled_from([1, 2, 4, 8]), st.integers(1, 16)
rows, widths = st.integers(1, 64), st.integers(1, 16384)
shards = st.sampled_from([1, 2, 4])
tenants = st.lists(st.builds(toys.tenant, rank=st.sampled_from([4, 16, 64])), max_size=12).map(tuple)


def padded(count: int, width: int, together: int = 1) -> Shape:
    return Shape(count, width, count * width, count * width, count * width * width, 1, together)


def place(config: ReplicaConfig) -> Replica:
    return Replica(config, tuple(range(config.gpus)), 16384)


def whole(cost, config: ReplicaConfig, stage: int, shape: Shape) -> float:
    return sum(cost.stage_seconds(place(config), stage, shape, kind) for kind in ("forward", "backward"))


@st.composite
def configs(draw, cost, *, even: bool = False) -> ReplicaConfig:
    layers = cost.layered.model.layers if isinstance(cost, KnottedCost) else cost.model.layers
    pp = draw(pps.filter(lambda pp: layers % pp == 0) if even else pps)
    return ReplicaConfig(draw(tps), pp, draw(st.integers(0, layers // pp)), draw(st.sampled_from([1, 1, 2, 8])))


@settings(max_examples=150)
@given(LAYERED, st.data(), rows, widths, shards)
def test_rates_are_the_price_of_the_slowest_stage(cost, data, count, width, together):
    config = data.draw(configs(cost, even=bool(cost.head)))  # an uneven pipeline's rates leave the head out
    rates = cost.rates(config, np.array([width]), together)
    slowest = max(whole(cost, config, stage, padded(count, width, together)) for stage in range(config.pp))

    assert max(rates.floor, rates.fixed[0] + rates.row[0] * count) == pytest.approx(slowest, rel=1e-9)
    pack = rates.pack
    line = pack.fixed + pack.run + pack.token * count * width + pack.square * count * width**2
    assert max(rates.floor, line) == pytest.approx(slowest, rel=1e-9)


@settings(max_examples=50)
@given(tps, st.integers(1, 16), rows, widths)
def test_rates_of_the_papers_form_are_the_price_of_every_stage(tp, pp, count, width):
    config = ReplicaConfig(tp, pp)
    rates = PAPER.rates(config, np.array([width]))

    assert rates.fixed[0] + rates.row[0] * count == pytest.approx(
        whole(PAPER, config, pp - 1, padded(count, width)), rel=1e-6, abs=1e-9
    )


@settings(max_examples=100)
@given(MONOTONE, st.data(), widths, st.integers(0, 4096), st.integers(0, 10**8), shards)
def test_more_tokens_or_longer_attention_are_never_faster_in_either_direction(
    cost, data, tokens, more, longer, together
):
    config = data.draw(configs(cost))
    small = Shape(1, tokens, tokens, tokens, tokens**2, 1, together)
    large = small._replace(tokens=tokens + more, squares=tokens**2 + longer)
    for kind in ("forward", "backward"):
        stage = data.draw(st.sampled_from([0, config.pp - 1]))
        before, after = (cost.stage_seconds(place(config), stage, shape, kind) for shape in (small, large))

        assert 0 < before <= after * (1 + 1e-12)


@settings(max_examples=100)
@given(LAYERED, st.data(), tenants, st.integers(0, 11))
def test_memory_never_grows_with_tenants_and_never_shrinks_with_recomputation(cost, data, everybody, some):
    candidate = data.draw(st.sampled_from(cost.configs()))
    layers = cost.model.layers // candidate.pp
    less, more = sorted(data.draw(st.tuples(st.integers(0, layers), st.integers(0, layers))))
    little, much = (ReplicaConfig(candidate.tp, candidate.pp, k) for k in (less, more))

    assert cost.max_tokens(little, everybody) <= cost.max_tokens(little, everybody[:some])
    assert cost.max_tokens(little, everybody) <= cost.max_tokens(much, everybody)


@settings(max_examples=50)
@given(st.data(), st.integers(0, 16384), st.integers(0, 4096), tenants)
def test_used_memory_grows_with_tokens_and_is_the_sum_of_its_parts(data, tokens, more, everybody):
    memory = SEVENTY.memory
    config = data.draw(st.sampled_from(SEVENTY.configs()))
    stage = data.draw(st.integers(0, config.pp - 1))
    small, large = (memory.breakdown(config, everybody, count, stage) for count in (tokens, tokens + more))

    assert small.used <= large.used
    assert small.used + small.spare == pytest.approx(small.capacity)
    parts = (small.weights, small.adapters, small.gradients, small.optimiser, small.activations, small.logits)
    assert sum(parts) + small.reserve == pytest.approx(small.used)
