import errno
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from executor import manifest
from executor.checkpoint import Draft, generations, newest, read_state
from executor.cursors import advanced
from executor.peft_format import import_adapter
from executor.state import KINDS
from lobra.errors import BadInput
from small_jobs import A, B, plan, step
from small_saves import CONFIG, CURSORS, damages, kills, save, state

POINTS = 10  # of a save; `make faults` tries fifty


def assert_equal(expected, actual, kinds=KINDS[:3]):
    assert expected.tenant == actual.tenant
    assert (expected.updates, expected.labels, expected.strikes) == (actual.updates, actual.labels, actual.strikes)
    assert set(kinds) == set(actual.tensors)
    for kind in kinds:
        assert expected.tensors[kind].keys() == actual.tensors[kind].keys()
        assert all(
            torch.equal(expected.tensors[kind][name], actual.tensors[kind][name]) for name in actual.tensors[kind]
        )


def test_a_state_comes_back_bit_for_bit_with_its_counters_and_cursors(tmp_path):
    first, second = state(A, 1), state(B, 2)
    place = save(tmp_path, 3, first, second)
    made = manifest.verify(place)

    assert (3, "numerics", ("a", "b"), CURSORS) == (made.steps, made.numerics, made.tenants, made.cursors)
    assert_equal(first, read_state(place, "a"))
    assert_equal(second, read_state(place, "b"))


def test_a_gradient_is_kept_only_where_it_waits_for_an_update(tmp_path):
    waiting = state(labels=12)

    assert_equal(waiting, read_state(save(tmp_path, 1, waiting), "a"), KINDS)


def test_every_tenant_lies_beside_its_state_as_an_adapter_that_peft_reads(tmp_path):
    saved = state()
    read = import_adapter(save(tmp_path, 1, saved) / "tenants" / "a" / "adapter", CONFIG)

    assert (A.rank, A.alpha) == (read.rank, read.alpha)
    assert all(torch.equal(saved.tensors["value"][name], matrix) for name, matrix in read.matrices.items())


def test_an_adapter_unfit_for_export_does_not_keep_the_others_from_being_saved(tmp_path):
    poisoned = state(B)
    poisoned.tensors["value"]["layers.0.q_proj.A"][0, 0] = float("nan")
    draft = Draft(tmp_path, 1, "numerics")
    for each in (poisoned, state(A)):
        draft.add(each, CONFIG)
    place = draft.commit(CURSORS, 2)

    assert ["b"] == list(draft.refused)
    assert not (place / "tenants" / "b" / "adapter").exists()
    assert ("b", "a") == manifest.verify(place).tenants


def test_two_generations_are_kept(tmp_path):
    for steps in (2, 10, 4, 123456789):
        save(tmp_path, steps)

    assert ["step-123456789", "step-00000010"] == [path.name for path in generations(tmp_path)]


def test_saving_at_the_same_step_again_replaces_a_damaged_checkpoint(tmp_path):
    place = save(tmp_path, 2)
    (place / "tenants" / "a" / "state.json").write_text("{}")
    save(tmp_path, 2)

    assert (place, []) == newest(tmp_path)
    assert [] == list(tmp_path.glob(".*"))


def test_after_a_kill_at_any_point_of_a_save_a_valid_checkpoint_loads(tmp_path):
    found = kills(tmp_path, POINTS)

    assert POINTS == len(found)
    assert all(found)
    names = {newest(root)[0].name for root in tmp_path.iterdir() if root.name != "probe"}
    assert {"step-00000001", "step-00000002"} == names  # the last point lies behind the renaming


def test_every_changed_byte_is_noticed_and_the_older_generation_taken(tmp_path):
    assert [True] * 100 == damages(tmp_path, 100, np.random.default_rng(7), cut=False)


def test_every_truncation_is_noticed_and_the_older_generation_taken(tmp_path):
    assert [True] * 20 == damages(tmp_path, 20, np.random.default_rng(8), cut=True)


def test_a_missing_file_and_a_manifest_that_points_outside_are_refused(tmp_path):
    place = save(tmp_path, 1)
    whole = manifest.verify(place)
    entry = next(iter(whole.files.values()))
    (place / manifest.NAME).write_bytes(manifest.encode(replace(whole, files={"../../secret": entry})))
    with pytest.raises(BadInput, match="outside"):
        manifest.verify(place)
    (place / manifest.NAME).write_bytes(manifest.encode(replace(whole, files={**whole.files, "gone": entry})))
    with pytest.raises(BadInput, match="cannot be read"):
        manifest.verify(place)


def test_a_full_disk_leaves_the_last_checkpoint_and_no_torso(tmp_path):
    def full(written):
        if written > 20_000:
            raise OSError(errno.ENOSPC, "No space left on device")

    place = save(tmp_path, 1)
    draft = Draft(tmp_path, 2, "numerics", full)
    with pytest.raises(OSError, match="No space"):
        draft.add(state(B), CONFIG)
    draft.discard()

    assert [place] == list(tmp_path.iterdir())
    assert (place, []) == newest(tmp_path)


def test_nothing_in_a_checkpoint_is_a_pickle(tmp_path):
    place = save(tmp_path, 1)

    assert {".json", ".safetensors"} == {path.suffix for path in place.rglob("*") if path.is_file()}
    assert "a" == json.loads((place / "tenants/a/state.json").read_text())["tenant"]["name"]


def test_a_cursor_depends_on_the_sequences_and_not_on_their_placement():
    here, there = plan((1, 1), (1, 1)), plan((2, 1), (1, 1), (1, 2))
    first = advanced({}, here.tenants, step(4, here))

    assert first == advanced({}, there.tenants, step(4, there, shift=1))
    assert first != advanced({}, here.tenants, step(5, here))
    assert (1, 2, 21, 17) == (first["a"].steps, first["a"].sequences, first["a"].tokens, first["a"].labels)
    assert (
        advanced(first, here.tenants, step(5, here))["a"].sha256
        != advanced({}, here.tenants, step(5, here))["a"].sha256
    )
