"""The packages, their names and what an installation finds."""

import importlib
import importlib.util
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

import lobra
from experiments import cli
from lobra.errors import BadInput

HOME = Path(lobra.__file__).parent.parent
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())


def test_every_package_lies_beside_the_language():
    cli.check_shadowing()
    for name in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert Path(spec.origin).parent.parent == HOME


def test_a_package_that_hides_one_of_ours_is_told_of(monkeypatch, tmp_path):
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "sim", raising=False)
    with pytest.raises(BadInput, match=f"package 'sim' comes from {tmp_path}"):
        cli.check_shadowing()


def test_every_top_level_package_is_shipped():
    found = {path.parent.name for path in HOME.glob("*/__init__.py") if not path.parent.name.startswith(".")}
    assert found - {"tests"} == set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_every_package_of_code_is_marked_as_typed():
    for name in PROJECT["tool"]["mypy"]["packages"]:
        assert (HOME / name / "py.typed").is_file(), name


def test_the_console_script_exists():
    module, _, function = PROJECT["project"]["scripts"]["lobra"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_configuration_is_found_as_package_data():
    assert (resources.files("conf") / "compare.yaml").is_file()
    assert (resources.files("conf") / "policy" / "lobra.yaml").is_file()
