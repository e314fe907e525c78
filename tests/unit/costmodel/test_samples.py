"""The table of a profile: what is read, what is refused, what is fitted."""

import csv
from pathlib import Path
from typing import Any

import pytest

from costmodel.fit import document_text, samples_document
from costmodel.samples import COLUMNS, DEPLOY, is_samples, read_samples
from lobra.errors import BadInput

LAYERS, PARAMETERS = 4, 737_792
FORM = {1: (2e-3, 1e-4, 7e-5, 1e-7), 2: (4e-3, 2e-4, 4e-5, 6e-8)}  # fixed, run, token, square seconds of a layer


def rows(
    tps=(1, 2), counts=(1, 2, 8), lengths=(16, 64, 256), scale: float = 1.0, **changed: Any
) -> list[dict[str, Any]]:
    """An exact profile: every point three times alone, and 1.8 times slower on all ranks."""
    made = []
    for tp in tps:
        fixed, run, token, square = FORM[tp]
        for length in lengths:
            for count in counts:
                for runs in {1, min(2, count)}:
                    layer = fixed + run * runs + token * length * count + square * length**2 * count
                    for crowded in (0, 1):
                        whole = LAYERS * layer * scale * (1.8 if crowded else 1.0)
                        made += [row(tp, crowded, count, length, runs, repeat, whole) | changed for repeat in (1, 2, 3)]
    return made


def row(tp: int, crowded: int, count: int, length: int, runs: int, repeat: int, seconds: float) -> dict[str, Any]:
    return {
        "tp": tp, "recompute": 0, "crowded": crowded, "rows": count, "width": length, "sequences": count,
        "tokens": count * length, "longest": length, "squares": count * length**2, "runs": runs, "tenants": runs,
        "repeat": repeat, "forward_seconds": 0.4 * seconds, "backward_seconds": 0.6 * seconds, "rest_seconds": 0.05,
        "saved_bytes": 50_000 * count * length // tp, "model": "demo", "layers": LAYERS,
        "layer_parameters": PARAMETERS, "parameters": 3_213_568, "dtype": "float32", "hardware": "a core",
        "device": "cpu", "cores": 2, "ranks": 4, "threads": 1, "memory_gib": 1.0, "torch": "2", "python": "3",
        "lobra": "0", "date": "2026-11-30", "repeats": 3,
    }  # fmt: skip


def table(path: Path, given: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        columns = [*COLUMNS, DEPLOY] if given and DEPLOY in given[0] else COLUMNS  # older tables lack it
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(given)
    return path


def test_an_exact_profile_is_found_again(tmp_path):
    document = samples_document(read_samples(table(tmp_path / "s.csv", rows())), "a core")

    for fit in document["fits"]:
        found = [fit[f"{part}_seconds"] for part in ("fixed", "run", "token", "square")]
        assert found == pytest.approx(FORM[fit["tp"]], rel=1e-3)
        assert fit["contention"] == {"ranks": 4, "cores": 2, "factor": 1.8}
    assert document["forward_share"]["linear"] == pytest.approx(0.4, abs=1e-3)
    assert (document["rest_seconds"], document["rest_tenant_seconds"]) == (
        pytest.approx(0.05),
        pytest.approx(0, abs=1e-6),
    )
    assert (document["noise"], document["model"], document["status"]) == (0.0, "demo", "measured")


def test_deployments_that_were_timed_give_seconds_a_gib_of_a_ranks_weights(tmp_path):
    layers, whole = 4 * LAYERS * PARAMETERS, 4 * 3_213_568  # bytes of float32
    weights = {1: whole / 2**30, 2: (whole - layers / 2) / 2**30}
    given = [each | {"deploy_seconds": 30.0 * weights[each["tp"]] if each["tp"] == 2 else 0.0} for each in rows()]

    document = samples_document(read_samples(table(tmp_path / "s.csv", given)), "a core")
    older = samples_document(read_samples(table(tmp_path / "t.csv", rows())), "a core")

    assert document["deploy_seconds_per_gib"] == pytest.approx(30.0)
    assert "deploy_seconds_per_gib" not in older


def test_the_rest_of_a_step_has_a_part_for_each_tenant(tmp_path):
    given = [each | {"rest_seconds": 0.02 + 0.01 * each["tenants"]} for each in rows()]
    given[0]["rest_seconds"] = 5.0  # one slow moment moves nothing

    document = samples_document(read_samples(table(tmp_path / "s.csv", given)), "a core")

    assert document["rest_seconds"] == pytest.approx(0.02, rel=1e-4)
    assert document["rest_tenant_seconds"] == pytest.approx(0.01, rel=1e-4)


def test_max_tokens_are_what_the_memory_holds_beside_the_weights(tmp_path):
    samples = read_samples(table(tmp_path / "s.csv", rows()))
    weights = 4 * 3_213_568  # bytes of float32 on one rank
    expected = (0.8 * 2**30 - weights) / 50_000 // 128 * 128

    assert samples_document(samples, "a core")["fits"][0]["max_tokens"] == expected
    assert samples_document(samples, "a core", max_tokens=777)["fits"][1]["max_tokens"] == 777
    assert samples_document(samples, "a core", memory_gib=1e-3)["fits"][0].get("max_tokens") is None


def test_the_text_says_where_and_when(tmp_path):
    text = document_text(samples_document(read_samples(table(tmp_path / "s.csv", rows())), "a core"), "lobra fit")
    assert "lobra profile on a core, 2026-11-30, torch 2, 3 repeats" in text
    assert text.startswith("# Layer times")


def test_a_profile_is_told_from_another_table(tmp_path):
    assert is_samples(table(tmp_path / "s.csv", rows()))
    (tmp_path / "other.csv").write_text("tp,seq_len,mbs,time\n")
    assert not is_samples(tmp_path / "other.csv")
    assert not is_samples(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (rows(forward_seconds="nan"), "line 2: forward_seconds is 'nan'; it must be a number above 0"),
        (rows(backward_seconds=-1.0), "line 2: backward_seconds is '-1.0'"),
        (rows(saved_bytes=-3), "saved_bytes is '-3'; it must be a number, 0 or more"),
        (rows(tp="two"), "tp is 'two'"),
        (rows(counts=(2,)), "tp 1 was timed with 2 rows only"),
        (rows(scale=1000.0), "off by a factor of a thousand"),
        (rows(scale=0.001), "off by a factor of a thousand"),
        (rows(lengths=(16,), counts=(1, 2)), "tp 1 has 3 points; at least 4 are needed"),
        (rows(device="abacus"), "device is 'abacus'; it must be cpu or cuda"),
        ([*rows(), *rows(hardware="another")], "hardware differs between rows"),
        ([], "it has no rows"),
    ],
)
def test_a_table_that_no_fit_can_repair_is_refused_with_the_reason(tmp_path, given, said):
    with pytest.raises(BadInput, match="samples") as refusal:
        read_samples(table(tmp_path / "s.csv", given))
    assert said in str(refusal.value)


def test_foreign_columns_are_refused(tmp_path):
    (tmp_path / "s.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="its columns are not those of `lobra profile`"):
        read_samples(tmp_path / "s.csv")


def test_what_a_reader_should_know_is_warned_of(tmp_path):
    quiet = read_samples(table(tmp_path / "quiet.csv", rows()))
    noisy = rows()
    for number, each in enumerate(noisy):
        each["forward_seconds"] *= 1 + number % 3
    flat = rows(lengths=(64,), counts=(1, 2, 8), repeats=1)
    told = [
        read_samples(table(tmp_path / f"{name}.csv", given)).warnings for name, given in (("n", noisy), ("f", flat))
    ]

    assert quiet.warnings == ()
    assert "the machine was busy" in told[0][0]
    assert "tp 1 was timed at one length only" in told[1][0]
    assert "timed once" in told[1][-1]
