"""Who may import whom, and what a quick answer must not load."""

import subprocess
import sys

import pytest
from importlinter.cli import lint_imports

from experiments.cli import VERBS
from experiments.desk import WORKERS, loaded

HEAVY = ("matplotlib", "scipy", "simpy", "highspy", "gurobipy", "pyarrow", "torch")


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after this statement."""
    code = f"import sys\n{statement}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_contracts_between_the_rooms_are_kept():
    assert lint_imports(no_cache=True) == 0


def test_every_verb_has_a_worker():
    assert set(WORKERS) == set(VERBS)
    assert all(callable(loaded(place)) for place in WORKERS.values())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import experiments.cli", (*HEAVY, "hydra", "numpy")),
        ("import experiments.front", tuple(name for name in HEAVY if name != "scipy")),
        ("import experiments.desk", tuple(name for name in HEAVY if name != "scipy")),
        ("from experiments.desk import WORKERS, loaded\nfor place in WORKERS.values(): loaded(place)", ("torch",)),
    ],
)
def test_what_is_not_needed_is_not_loaded(statement, absent):
    assert not loaded_by(statement) & set(absent)
