"""What was published, as data with source and date: `published.yaml`."""

from functools import cache
from importlib.resources import files
from typing import Any

from workloads.strict_yaml import read_yaml


def published(part: str) -> Any:
    """One part of the published figures, such as headline or table9."""
    return _whole()[part]


@cache
def _whole() -> dict[str, Any]:
    whole: dict[str, Any] = read_yaml(
        files("experiments.study").joinpath("published.yaml").read_bytes(), "published.yaml"
    )
    return whole


def error(ours: float, theirs: float) -> float:
    """How far ours is from the published figure, as a share of it."""
    return ours / theirs - 1
