"""The page that teaches how to write a policy says what is true: its code runs as it stands."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import toys
from lobra.check import check_conserved, check_step
from lobra.errors import Infeasible
from policies.batching.packed import Packed
from policies.batching.padded import Padded
from policies.dispatch.balanced import Balanced
from policies.evaluate import work_seconds
from policies.policy import step_plan

PAGE = Path(__file__).parents[3] / "docs" / "write-a-policy.md"
NAME = "policies.dispatch.longest_first"


@pytest.fixture
def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def policy_class(blocks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type:
    path = tmp_path / "longest_first.py"
    path.write_text(blocks[0], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, NAME, module)
    spec.loader.exec_module(module)
    return module.LongestFirst


def slowest(plan, step) -> float:
    return max(work_seconds(work, r, toys.ToyCost()) for work, r in zip(step.work, plan.replicas, strict=True))


@pytest.mark.parametrize("batching", [Padded(), Packed()])
def test_the_new_dispatcher_conforms(batching, policy_class: type):
    plan, cost = toys.plan((1, 1, 4), (4, 1, 3)), toys.ToyCost()

    for batch in toys.workload().batches(3):
        step = step_plan(batch, plan, batching, policy_class(), cost)
        check_step(plan, step)
        check_conserved(batch, step)
        best = slowest(plan, step_plan(batch, plan, batching, Balanced(), cost))
        assert slowest(plan, step) <= 1.5 * best


def test_what_fits_nowhere_is_infeasible(policy_class: type):
    with pytest.raises(Infeasible, match="no replica of the plan holds it"):
        step_plan(toys.batch(5000), toys.plan((1, 1, 4)), Padded(), policy_class(), toys.ToyCost())


def test_the_page_plays_it_in_the_simulator(blocks: list[str], policy_class: type, tmp_path: Path):
    assert policy_class.__name__ in blocks[1]
    script = tmp_path / "play.py"
    script.write_text(blocks[1], encoding="utf-8")

    seconds = runpy.run_path(str(script))["seconds"]

    assert len(seconds) == 3
    assert np.all(np.array(seconds) > 5)  # the paper's setting: about 12 seconds a step
