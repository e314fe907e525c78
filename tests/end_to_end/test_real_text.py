"""Real texts and a real model, from JSON lines to adapters: the trial that `benchmarks/real_text.py` makes."""

import json
import runpy
from pathlib import Path

import pytest

from lobra import stream

HOME = Path(__file__).parents[2]
pytest.importorskip("tokenizers")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_four_real_texts_train_four_adapters_whose_losses_fall(tmp_path, reference_data):
    trial = runpy.run_path(str(HOME / "benchmarks" / "real_text.py"))

    small = ["--steps", "5", "--divide", "4", "--repeats", "0"]
    arguments = ["--reference-data", str(reference_data), "--output", str(tmp_path), *small]
    assert trial["main"](arguments) == 0  # every loss fell

    told = json.loads((tmp_path / "OUT" / "summary.json").read_text())
    assert told["quarantined"] == []
    adapters = tmp_path / "OUT" / "0" / "job" / "adapters"
    assert sorted(path.name for path in adapters.iterdir()) == sorted(trial["TEXTS"])
    plan = next(stream.read(tmp_path / "OUT" / "0" / "directives.jsonl"))
    assert sorted(replica.config.tp for replica in plan.replicas) == [1, 1, 2]


def test_without_the_texts_the_trial_says_so_and_ends_well(tmp_path, capsys):
    trial = runpy.run_path(str(HOME / "benchmarks" / "real_text.py"))

    assert trial["main"](["--reference-data", str(tmp_path / "none")]) == 0
    assert "skipped: there are no texts in" in capsys.readouterr().out
