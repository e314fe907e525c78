"""Studies by name: the one place that knows them all."""

from experiments.study import (
    fair,
    fig7,
    fig8,
    fig9,
    fig10,
    fig11,
    quality,
    rederive,
    referee,
    sensitivity,
    table3,
    table5,
    table9,
)
from experiments.study.point import Study
from lobra.errors import BadInput

STUDIES = (
    "fig7",
    "fig8",
    "fig9",
    "fig10",
    "fig11",
    "table3",
    "table5",
    "table9",
    "rederive",
    "referee",
    "fair",
    "sensitivity",
    "quality",
)


def study_of(name: str) -> Study:
    """The study of that name."""
    match name:
        case "fig7":
            return fig7
        case "fig8":
            return fig8
        case "fig9":
            return fig9
        case "fig10":
            return fig10
        case "fig11":
            return fig11
        case "table3":
            return table3
        case "table5":
            return table5
        case "table9":
            return table9
        case "rederive":
            return rederive
        case "referee":
            return referee
        case "fair":
            return fair
        case "sensitivity":
            return sensitivity
        case "quality":
            return quality
    raise BadInput(f"study: there is no study {name!r}; choose experiment={', '.join(STUDIES)}")
