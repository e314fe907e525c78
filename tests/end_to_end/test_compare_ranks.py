"""`lobra compare backend=torch`: policies judged side by side on real ranks."""

import json

import pytest

from commands import lobra_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SMALL = ("backend=torch", "model=demo", "cluster=cpu", "cluster.gpus_per_node=2", "cost=roofline", "plans='1,1/256x2'")
LAW = "context_limit: 64, overlong: truncate, family: {family: shifted_lognormal, shift: 8, mu: 2.5, sigma: 0.4}"


def compared(tmp_path, *arguments):
    done = lobra_process("compare", *SMALL, "workload=own", "workload.file=t.yaml", *arguments, cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr
    return done, json.loads((tmp_path / "OUT" / "summary.json").read_text())["policies"]


def test_two_policies_train_the_same_adapters_at_their_own_speeds(tmp_path):
    (tmp_path / "t.yaml").write_text("tenants:\n" + "".join(f"- {{name: {n}, batch_size: 6, {LAW}}}\n" for n in "ab"))
    arguments = ("steps=3", "policies=[lobra,lobra_packed]", "run_dir=OUT")
    done, told = compared(tmp_path, *arguments)

    assert done.returncode == 0
    padded, packed = told["lobra"], told["lobra_packed"]
    assert padded["status"] == packed["status"] == "measured"
    assert "lobra_packed: loss of b: " in done.stdout
    assert padded["padding"] > packed["padding"] == 0
    assert len(padded["losses"]["a"]) == 3
    for name in "ab":  # where and beside whom a sequence is trained changes nothing
        assert packed["losses"][name] == pytest.approx(padded["losses"][name], rel=1e-4)
    for policy in told:
        adapters = tmp_path / "OUT" / policy / "0" / "job" / "adapters"
        assert sorted(path.name for path in adapters.iterdir()) == ["a", "b"]

    done, again = compared(tmp_path, *arguments)  # finished jobs are read, not played anew
    assert done.returncode == 0
    for name in told:
        assert again[name]["gpu_seconds_per_step"] == told[name]["gpu_seconds_per_step"]


def test_a_tenant_that_a_policy_had_to_give_up_is_told_of(tmp_path):
    wild = f"- {{name: wild, batch_size: 4, {LAW}, learning_rate: 1.0e+30}}\n"
    (tmp_path / "t.yaml").write_text(f"tenants:\n- {{name: a, batch_size: 4, {LAW}}}\n{wild}")
    done, told = compared(tmp_path, "steps=4", "policies=[lobra]", "backend.quarantine_after=1", "run_dir=OUT")

    assert done.returncode == 4
    assert told["lobra"]["quarantined"] == ["wild"]
    assert "lobra: loss of wild: " in done.stdout
