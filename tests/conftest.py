"""Options and fixtures of the whole suite."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reference-data",
        type=Path,
        default=Path(__file__).parent.parent.parent / "shared" / "data",
        help="folder with the published tables and measured profiles; tests that need it skip where it is absent",
    )


@pytest.fixture(scope="session")
def reference_data(pytestconfig: pytest.Config) -> Path:
    """The folder with published tables and measured profiles."""
    folder: Path = pytestconfig.getoption("--reference-data")
    if not folder.is_dir():
        pytest.skip(f"no reference data at {folder}; name its folder with --reference-data")
    return folder
