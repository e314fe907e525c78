"""The phase diagram as a figure: a panel a memory slack, winners by colour and letter, the user as a diamond."""

from typing import Any

import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.gain_phase import MASSES, PENALTIES, WINNERS, Phase
from experiments.study import style
from lobra.batch import Array

COLOURS = ("#F2F2F2", "#0072B2", "#F0E442", "#009E73")
LETTERS = ("", "H", "P", "C")
NOTHING = "#8C8C8C"


def phase_figure(phase: Phase, title: str) -> Figure:
    """The winners of every panel."""
    drawn, axes = style.canvas(style.PAGE, 2.8, 1, len(phase.winner), squeeze=False, sharey=True)
    for panel, (slack, winner) in zip(axes[0], phase.winner.items(), strict=True):
        panel.pcolormesh(
            MASSES,
            PENALTIES,
            winner,
            cmap=ListedColormap([NOTHING, *COLOURS]),
            norm=BoundaryNorm(np.arange(-1.5, len(COLOURS)), len(COLOURS) + 1),
            shading="nearest",
            rasterized=True,
        )
        for place, letter in enumerate(LETTERS):
            _letter(panel, winner == place, letter)
        if slack == 1.0:
            panel.plot([max(phase.mass, MASSES[0])], [1.0], "D", color="#D55E00", markeredgecolor="white", markersize=6)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xticks([0.01, 0.1, 0.5], ["1", "10", "50"])
        panel.set_yticks([0.25, 1, 4], ["0.25", "1", "4"])
        panel.minorticks_off()
        panel.set_title(f"memory for {slack:g} times the tokens")
        panel.set_xlabel("tokens in the tail, %")
    axes[0][0].set_ylabel("penalty of larger kinds,\ntimes as priced")
    patches = [Patch(facecolor=colour, edgecolor=style.INK, linewidth=0.4) for colour in (*COLOURS, NOTHING)]
    labels = [f"{word} ({letter})" if letter else word for word, letter in zip(WINNERS, LETTERS, strict=True)]
    drawn.legend(patches, [*labels, "nothing fits"], loc="outside upper center", ncols=5, frameon=False)
    style.caption(
        drawn, f"{title}; what could save most of GPU seconds, by work alone; diamond: these lengths as they are"
    )
    return drawn


def _letter(panel: Any, here: Array, letter: str) -> None:
    """In the middle of a region that is large enough, so that it reads without colour."""
    rows, columns = np.nonzero(here)
    if letter and len(rows) > 12:
        far = (rows - np.median(rows)) ** 2 + (columns - np.median(columns)) ** 2
        at = int(np.argmin(far))
        style.write(panel, MASSES[columns[at]], PENALTIES[rows[at]], letter, va="center", fontsize=9, bbox=style.WHITE)
