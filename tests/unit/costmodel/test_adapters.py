"""The adapters' own kernels: by rank, by kernel, by run, in every form alike."""

import numpy as np
import pytest
import yaml

import toys
from costmodel.adapter_fit import document
from costmodel.adapters import FILE, Adapters, adapter_price, curves_with_run_factor, read_kernels
from costmodel.catalogue import cost_model
from costmodel.fitted import fitted_cost
from costmodel.hardware import cluster_spec, model_spec
from costmodel.knots import Curve
from costmodel.views import Directions
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig, Shape

SEVEN, CLUSTER = model_spec("llama2_7b"), cluster_spec("a100_40gb", 2, 8)
ONE = ReplicaConfig(1, 1)
FORMS = ("auto", "floor", "roofline")


def of(*ranks: int, kernels="auto", run_factor=1.0) -> Adapters:
    return Adapters(tuple(toys.tenant(f"t{rank}", rank=rank) for rank in ranks), kernels, run_factor)


def seconds(cost, runs: int, tokens: int = 8192) -> float:
    place = Replica(ONE, (0,), 16384)
    what = Shape(tokens // 512, 512, tokens, tokens, tokens * 512, runs, 1)
    return sum(cost.stage_seconds(place, 0, what, kind) for kind in ("forward", "backward"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernels", ["loop", "grouped", "fused"])
def test_a_larger_rank_takes_longer(form, kernels):
    times = [
        seconds(cost_model(SEVEN, CLUSTER, form=form, adapters=of(rank, kernels=kernels)), 2) for rank in (1, 16, 64)
    ]

    assert np.all(np.diff(times) > 0)


def test_tenants_count_by_their_sequences():
    table, gpu = read_kernels(), CLUSTER.gpu
    small, large = (adapter_price(table, SEVEN, gpu, 1, of(rank)).token for rank in (8, 64))
    both = Adapters((toys.tenant("a", rank=8, batch_size=3), toys.tenant("b", rank=64, batch_size=1)))

    assert adapter_price(table, SEVEN, gpu, 1, both).token == pytest.approx(0.75 * small + 0.25 * large)


def test_fewer_target_modules_take_less():
    table, gpu = read_kernels(), CLUSTER.gpu
    few = adapter_price(table, SEVEN, gpu, 1, Adapters((toys.tenant(target_modules=("q_proj", "v_proj")),)))
    all_of_them = adapter_price(table, SEVEN, gpu, 1, of(16))

    assert few.token < all_of_them.token
    assert few.run == pytest.approx(all_of_them.run * 2 / 7)


def test_a_loop_pays_its_small_products_for_every_run():
    price = adapter_price(read_kernels(), SEVEN, CLUSTER.gpu, 1, of(16))

    assert price.run == pytest.approx(42 * 5.939e-6)
    assert price.token == pytest.approx(
        2 * (5.655 * 78080 + 6 * 16 * 7) / (1555e9 * 0.837) + 6 * 16 * 78080 / (312e12 * 0.55)
    )


def test_fused_kernels_are_faster_than_grouped_ones_and_these_than_a_loop():
    loop, grouped, fused = (
        cost_model(SEVEN, CLUSTER, adapters=of(16, kernels=kernels)) for kernels in ("loop", "grouped", "fused")
    )

    assert seconds(fused, 4) < seconds(grouped, 4) < seconds(loop, 4)
    assert seconds(loop, 1) == seconds(cost_model(SEVEN, CLUSTER), 1) == pytest.approx(seconds(grouped, 1))


@pytest.mark.parametrize("form", ["auto", "floor"])
def test_a_micro_batch_of_one_run_costs_what_was_timed_whatever_a_run_costs(form):
    usual, free, dear = (
        cost_model(SEVEN, CLUSTER, form=form, adapters=Adapters(run_factor=factor)) for factor in (1.0, 0.0, 3.0)
    )

    assert seconds(free, 1) == pytest.approx(seconds(usual, 1), rel=1e-12)
    assert seconds(dear, 1) == pytest.approx(seconds(usual, 1), rel=1e-12)
    assert seconds(free, 5) == pytest.approx(seconds(usual, 1), rel=1e-12)
    assert seconds(usual, 5) - seconds(usual, 1) == pytest.approx(4 * 32 * 42 * 5.939e-6)
    assert seconds(dear, 5) - seconds(dear, 1) == pytest.approx(3 * 4 * 32 * 42 * 5.939e-6)


@pytest.mark.parametrize("factor", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("form", FORMS)
def test_rates_packs_and_stages_see_the_same_run(form, factor):
    cost = cost_model(SEVEN, CLUSTER, form=form, adapters=Adapters(run_factor=factor))
    rates = cost.rates(ONE, np.array([512]))

    assert rates.pack is not None
    assert rates.pack.run == pytest.approx(seconds(cost, 3) - seconds(cost, 2))
    assert rates.fixed[0] == pytest.approx(rates.pack.fixed + rates.pack.run)


def test_hardware_that_nobody_timed_has_the_adapters_on_top_of_its_roofline():
    unknown = cluster_spec("cpu", 1, 8)
    few, many = (cost_model(SEVEN, unknown, adapters=of(rank)) for rank in (8, 64))

    assert any("on top of the layer" in note for note in few.provenance(ONE, ()).notes)
    assert seconds(few, 1) < seconds(many, 1)


def test_a_measured_run_is_multiplied_in_a_file_of_ones_own():
    fit = {"tp": 1, "floor_seconds": 0.0, "fixed_seconds": 1e-3, "run_seconds": 2e-4, "token_seconds": 1e-6}
    fit |= {"square_seconds": 1e-10, "tokens": [128, 8192], "lengths": [128, 4096], "mean_error": 0.01}
    share = {"linear": 0.47, "attention": 0.25}
    source = {"model": "llama2_7b", "status": "measured", "source": "x", "forward_share": share, "fits": [fit]}
    room = cost_model(SEVEN, CLUSTER, form="floor").memory

    usual, dear = (
        fitted_cost(SEVEN, CLUSTER, source, room, (ONE,), run_factor=factor).rates(ONE, np.array([512])).pack
        for factor in (1.0, 3.0)
    )

    assert (usual.run, dear.run) == pytest.approx((32 * 2e-4, 32 * 6e-4))
    assert usual.fixed == dear.fixed


def test_curves_of_a_file_multiply_their_measured_run_too():
    flat = Curve((0.0,), (1e-3,), (1e-6,), run=2e-4)
    (changed,) = curves_with_run_factor({1: Directions(flat, flat)}, 3.0).values()

    assert changed.forward.run == changed.backward.run == pytest.approx(6e-4)
    assert changed.forward.seconds(0, 1, 100, 0) == flat.seconds(0, 1, 100, 0)


def test_what_a_form_does_not_have_is_refused():
    with pytest.raises(BadInput, match="paper's form has no price of an adapter run; leave it at 1"):
        cost_model(SEVEN, CLUSTER, form="paper", adapters=Adapters(run_factor=3.0))
    with pytest.raises(BadInput, match="the paper's form has the kernels that were timed"):
        cost_model(SEVEN, CLUSTER, form="paper", adapters=Adapters(kernels="fused"))
    with pytest.raises(BadInput, match="adapter_run is nan"):
        Adapters(run_factor=float("nan"))
    with pytest.raises(BadInput, match="adapters: there is no 'fussed'; did you mean fused"):
        Adapters(kernels="fussed")


def test_the_shipped_numbers_are_what_the_command_makes_of_the_tables(reference_data):
    assert document(reference_data / "gpu_profiles") == yaml.safe_load(FILE.read_text(encoding="utf-8"))
