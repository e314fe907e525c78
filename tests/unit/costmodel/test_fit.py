"""From a profile to coefficients."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from costmodel.fit import fit_profile, main, read_profile
from costmodel.profile import fit_tied
from costmodel.sources import FOLDER
from lobra.errors import BadInput

SOURCE = FOLDER / "llama2_7b_a100_40gb_floor.yaml"


def table(path: Path, rows: list[tuple[float, ...]], header: str = "tp,seq_len,mbs,time") -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    return path


def points(floor: float, fixed: float, token: float, square: float, tp: int = 1) -> list[tuple[float, ...]]:
    """Milliseconds of an exact floor form, on a grid."""
    return [
        (tp, s, b, max(floor, fixed + token * s * b + square * b * s * s))
        for s in (32, 128, 512, 2048, 4096)
        for b in (1, 2, 4, 8)
    ]


def test_an_exact_floor_form_is_found_again(tmp_path: Path):
    path = table(tmp_path / "p.csv", points(3.0, 2.0, 5e-3, 1e-7))

    fit = fit_profile(read_profile(path)[0])

    assert (fit.floor, fit.fixed, fit.token, fit.square) == pytest.approx((3e-3, 2e-3, 5e-6, 1e-10), rel=1e-6)


def test_a_line_without_a_floor_is_found_again(tmp_path: Path):
    path = table(tmp_path / "p.csv", points(0.0, 2.0, 5e-3, 1e-7))

    fit = fit_profile(read_profile(path)[0])

    assert (fit.fixed, fit.token, fit.square) == pytest.approx((2e-3, 5e-6, 1e-10), rel=1e-6)
    assert fit.floor <= 2e-3 + 5e-6 * 64 + 1e-7


def test_coefficients_are_never_negative(tmp_path: Path):
    generator = np.random.default_rng(3)
    noisy = [(tp, s, b, t * generator.lognormal(0, 0.5)) for tp, s, b, t in points(3.0, 0.0, 5e-3, 0.0)]

    fit = fit_profile(read_profile(table(tmp_path / "p.csv", noisy))[0])

    assert min(fit.floor, fit.fixed, fit.token, fit.square) >= 0


def test_tied_profiles_share_what_attention_costs(tmp_path: Path):
    rows = points(3.0, 2.0, 5e-3, 1e-7, tp=1) + [row for row in points(2.0, 2.0, 3e-3, 5e-8, tp=2) if row[1] <= 512]
    one, two = fit_tied(read_profile(table(tmp_path / "p.csv", rows)))

    assert one.square == pytest.approx(2 * two.square)
    assert two.square == pytest.approx(5e-11, rel=1e-2)
    assert (two.fixed, two.token) == pytest.approx((2e-3, 3e-6), rel=1e-2)


def test_profiles_without_attention_can_be_tied(tmp_path: Path):
    profiles = read_profile(table(tmp_path / "p.csv", points(0.0, 2.0, 5e-3, 0.0)))

    assert [fit.square for fit in fit_tied(profiles)] == pytest.approx([0.0], abs=1e-14)


def test_tying_the_published_profile_costs_nothing_and_reaches_further(reference_data: Path):
    profiles = read_profile(reference_data / "peer_lobra/profile_time_7B_real_A100-40G.csv")
    last = profiles[-1]
    far = last.lengths == 16384
    shorter = [*profiles[:-1], last.part(~far)]

    own, tied = (
        [np.abs(fit.errors(p)).mean() for fit, p in zip(fits, profiles, strict=True)]
        for fits in ([fit_profile(profile) for profile in profiles], fit_tied(profiles))
    )

    assert max(tied) < max(own) + 0.001
    assert np.abs(fit_tied(shorter)[-1].errors(last.part(far))).mean() < 0.02
    assert np.abs(fit_profile(shorter[-1]).errors(last.part(far))).mean() > 0.08


def test_each_tp_is_a_profile_of_its_own(tmp_path: Path):
    path = table(tmp_path / "p.csv", points(3.0, 2.0, 5e-3, 1e-7, tp=2) + points(4.0, 3.0, 9e-3, 2e-7, tp=1))

    assert [(profile.tp, len(profile.seconds)) for profile in read_profile(path)] == [(1, 20), (2, 20)]


def test_the_shipped_coefficients_come_from_the_published_profile_byte_for_byte(tmp_path: Path, reference_data: Path):
    output = tmp_path / "again.yaml"
    output.write_bytes(SOURCE.read_bytes())

    code = main([str(reference_data / "peer_lobra/profile_time_7B_real_A100-40G.csv"), "--output", str(output)])

    assert code == 0
    assert output.read_bytes() == SOURCE.read_bytes()


def test_a_fresh_source_says_what_was_measured(tmp_path: Path):
    profile, output = table(tmp_path / "p.csv", points(3.0, 2.0, 5e-3, 1e-7)), tmp_path / "new.yaml"

    code = main([str(profile), "--output", str(output), "--gpu", "X", "--model", "y", "--source", "my bench"])

    written = yaml.safe_load(output.read_text())
    assert code == 0
    assert (written["gpu"], written["model"], written["source"], written["engine"]) == (
        "X",
        "y",
        "my bench",
        "unstated",
    )
    assert written["fits"][0]["tokens"] == [32, 32768]
    assert written["fits"][0]["lengths"] == [32, 4096]


def test_a_fresh_source_without_a_description_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    profile = table(tmp_path / "p.csv", points(3.0, 2.0, 5e-3, 1e-7))

    code = main([str(profile), "--output", str(tmp_path / "new.yaml")])

    assert code == 2
    assert "--gpu is missing" in capsys.readouterr().err
    assert not (tmp_path / "new.yaml").exists()


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([(1, 128, 1, "fast")] * 4, "tp,seq_len,mbs,time", "line 2: time is 'fast'"),
        ([(1, 128, 1, -3)] * 4, "tp,seq_len,mbs,time", "time is '-3'; it must be a number above 0"),
        ([(1, 128, 1, 3)] * 3, "tp,seq_len,mbs,time", "tp 1 has 3 points"),
        ([], "tp,seq_len,mbs,time", "it has no rows"),
        ([(1, 128, 1, 3)], "tp,length,mbs,time", "columns are"),
        ([(1, 128, 1)] * 4, "tp,seq_len,mbs,time", "time is None"),
    ],
)
def test_a_bad_profile_is_refused_by_line_and_column(tmp_path: Path, rows, header, message):
    with pytest.raises(BadInput, match=message):
        read_profile(table(tmp_path / "p.csv", rows, header))


def test_an_absent_profile_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match="cannot be read"):
        read_profile(tmp_path / "none.csv")


def test_the_shipped_errors_are_those_of_the_study():
    errors = {fit["tp"]: fit["mean_error"] for fit in yaml.safe_load(SOURCE.read_text())["fits"]}

    assert errors == {1: 0.0378, 2: 0.0247, 4: 0.0156, 8: 0.0404}
