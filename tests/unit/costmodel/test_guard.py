"""What may be loaded and what may be asked."""

import copy
import math

import numpy as np
import pytest
import yaml

import toys
from costmodel.calibration import half_width
from costmodel.catalogue import cost_model
from costmodel.fit import read_profile
from costmodel.guard import Hull, check_floor_source, hulls, strict, widened
from costmodel.hardware import cluster_spec, model_spec
from costmodel.profile import fit_profile
from costmodel.sources import FOLDER, read_source
from lobra.errors import BadInput
from lobra.plan import Replica, ReplicaConfig, Shape

SEVEN = model_spec("llama2_7b")
CLUSTER = cluster_spec("a100_40gb", 2, 8)


def shipped() -> dict:
    return copy.deepcopy(read_source(FOLDER / "llama2_7b_a100_40gb_floor.yaml", "floor_form"))


def uniform(rows: int, length: int, shards: int = 1) -> Shape:
    return Shape(rows, length, rows * length, rows * length, rows * length**2, 1, shards)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_source_of_layer_times_passes(path):
    source = yaml.safe_load(path.read_text())
    if source["kind"] == "floor_form":
        check_floor_source(source)
    else:
        with pytest.raises(BadInput):
            check_floor_source(source)


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, "1e-3", True, None])
@pytest.mark.parametrize("part", ["floor", "fixed", "run", "token", "square"])
def test_no_coefficient_that_is_negative_or_no_number_is_loaded(part, value):
    source = shipped()
    source["fits"][1][f"{part}_seconds"] = value
    with pytest.raises(BadInput, match=f"tp 2: {part}_seconds is"):
        check_floor_source(source)


def all_zero(source):
    source["fits"][0] |= {f"{part}_seconds": 0.0 for part in ("floor", "fixed", "run", "token", "square")}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (all_zero, "tp 1: every part is 0"),
        (lambda s: s["fits"][0].update(tokens=[4096, 128]), "tp 1: tokens is"),
        (lambda s: s["fits"][0].update(lengths=[0, 128]), "tp 1: lengths is"),
        (lambda s: s["fits"][0].update(lengths=128), "tp 1: lengths is 128"),
        (lambda s: s["fits"][0].pop("token_seconds"), "the key 'token_seconds' is missing"),
        (lambda s: s["fits"][0].update(tp=2), "tp stands more than once"),
        (lambda s: s["fits"][0].update(tp=0), "tp is 0"),
        (lambda s: s["fits"][0].update(contention={"factor": math.nan}), "contention factor is nan"),
        (lambda s: s["fits"][0].update(max_tokens=-5), "max_tokens is -5"),
        (lambda s: s.update(fits=[]), "at least one"),
        (lambda s: s.update(rest_seconds=-0.1), "rest_seconds is -0.1"),
        (lambda s: s.update(rest_tenant_seconds=float("nan")), "rest_tenant_seconds is nan"),
        (lambda s: s["forward_share"].update(linear=0.6), "backward could be negative"),
        (lambda s: s["forward_share"].update(attention=0.49), "backward could be negative"),
    ],
)
def test_a_damaged_source_is_refused_with_the_reason(change, said):
    source = shipped()
    change(source)
    with pytest.raises(BadInput, match="source") as refusal:
        check_floor_source(source)
    assert said in str(refusal.value)


def test_a_damaged_file_is_refused_when_it_is_loaded(tmp_path):
    source = shipped()
    source["fits"][0]["token_seconds"] = -1e-6
    file = tmp_path / "fitted.yaml"
    file.write_text(yaml.safe_dump(source))

    with pytest.raises(BadInput, match="tp 1: token_seconds is -1e-06; it must be a finite number, 0 or more"):
        cost_model(SEVEN, CLUSTER, form="fitted", file=file, memory="analytic")


def test_excess_counts_tokens_and_lengths():
    hull = Hull(tokens=8192, length=4096)

    assert hull.excess(uniform(1, 4096)) == 1
    assert hull.excess(uniform(4, 4096)) == 2
    assert hull.excess(uniform(1, 6144)) == 1.5
    assert hull.excess(uniform(2, 8192, shards=2)) == 2
    assert widened(0.1, 1.5) == pytest.approx(0.15)
    assert widened(0.1, 0.5) == 0.1


def test_strict_refuses_to_extrapolate_and_changes_no_price():
    cost = cost_model(SEVEN, CLUSTER)
    guarded, replica = strict(cost), Replica(ReplicaConfig(1, 1), (0,), 2048)
    inside, beyond = uniform(4, 512), uniform(1, 8192)

    assert guarded.stage_seconds(replica, 0, inside, "forward") == cost.stage_seconds(replica, 0, inside, "forward")
    assert guarded.configs() == cost.configs()
    assert guarded.max_tokens(replica.config, (toys.tenant(),)) == cost.max_tokens(replica.config, (toys.tenant(),))
    with pytest.raises(BadInput, match="strict: a micro-batch of 8192 tokens, 8192 a sequence, on <1,1> lies beyond"):
        guarded.stage_seconds(replica, 0, beyond, "forward")


def test_what_nobody_timed_has_no_hull_to_be_strict_about():
    with pytest.raises(BadInput, match="it has no hull"):
        strict(cost_model(SEVEN, CLUSTER, form="roofline"))


def test_widened_intervals_cover_the_longer_sequences_of_the_7b_profile(reference_data):
    profiles = read_profile(reference_data / "peer_lobra/profile_time_7B_real_A100-40G.csv")
    inside = []
    for profile in profiles:
        for longest in (1024, 2048, 4096):
            known = profile.lengths <= longest
            fit = fit_profile(profile.part(known))
            errors = np.abs(np.log(fit.seconds(profile) / profile.seconds))
            width = half_width(errors[known], 0.9)
            beyond = ~known
            excess = profile.lengths[beyond] / longest
            inside += [error <= widened(width, times) for error, times in zip(errors[beyond], excess, strict=True)]

    assert len(inside) > 50
    assert np.mean(inside) >= 0.9


def test_the_hull_is_that_of_the_source():
    cost = cost_model(SEVEN, CLUSTER)
    assert hulls(cost)[8] == Hull(65536, 16384)
