"""The verb `gain`: for a user's own lengths, the most that each ingredient can give, and which could give most."""

import sys
from dataclasses import asdict
from pathlib import Path

from experiments import schema
from experiments.build import build_cluster, build_cost, build_model
from experiments.figures import save
from experiments.gain_bounds import JOINT, Baseline, Gain, baseline, gains
from experiments.gain_figure import phase_figure
from experiments.gain_lengths import lengths_workload
from experiments.gain_phase import MASSES, PENALTIES, SLACKS, WINNERS, Phase, phase_of
from experiments.rundir import SCHEMA, pretty
from experiments.study.style import styled
from experiments.tables import print_table
from experiments.walk import World
from lobra.errors import BadInput
from lobra.files import write_atomically

COLUMNS = ("what may be used", "seconds a step at least", "saves at most", "prices")
ORDINAL = "quarter"  # of the longest sequence: where the tail begins, 1 / TAIL of the diagram


def gain(asked: schema.Gain, folder: Path | None) -> int:
    """Tell of the gains; with a folder also `summary.json`, `gain.pdf` and `gain.png`."""
    if asked.seed < 0:
        raise BadInput(f"seed is {asked.seed}; it must not be negative")
    world = _world(asked)
    known = baseline(world, asked.seed)
    rows, phase = gains(world, asked.seed, known), phase_of(world, asked.seed)
    lines = _lines(rows, known, phase, world)
    print_table(COLUMNS, [_cells(row) for row in rows], sys.stdout)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if folder is not None:
        _write(folder, asked, rows, known, phase)
    return 0


def _world(asked: schema.Gain) -> World:
    workload = lengths_workload(
        asked.lengths, batch_size=asked.batch_size, max_length=asked.max_length, seed=asked.seed
    )
    model, cluster = build_model(asked.model), build_cluster(asked.cluster)
    return World(workload, model, cluster, build_cost(asked.cost, model, cluster, workload.tenants))


def _cells(row: Gain) -> tuple[str, ...]:
    """A line for people."""
    if row.seconds is None or row.saves is None:
        return (row.name, "-", "-", f"none: {row.reason}")
    return (row.name, f"{row.seconds:.3f}", f"{100 * row.saves:.1f} %", row.basis)


def _lines(rows: list[Gain], known: Baseline, phase: Phase, world: World) -> list[str]:
    """What it is compared with, and what the diagram says here and around."""
    joint = next((row for row in rows if row.name == JOINT and row.seconds is not None), None)
    beside = f"; joint training is compared with one tenant after another, {joint.of:.3f} s" if joint else ""
    tail = f"{100 * phase.mass:.1f} % of the tokens are in sequences above a {ORDINAL} of the longest"
    around = ", ".join(f"with memory for {slack:g} times the tokens {phase.here(slack)}" for slack in SLACKS)
    against = f"{known.seconds:.3f} s a step on {world.cluster.gpus} GPUs ({known.plan}; {known.basis})"
    return [
        f"compared with the best homogeneous plan, padded to 16 widths and balanced: {against}{beside}",
        f"{tail}; padding is {100 * (1 - 1 / phase.padding):.1f} % of what is computed",
        f"what alone could save most: {around}",
        "upper bounds: perfect balance, no bubbles, no synchronisation; gains do not add up; `lobra plan` makes a plan",
        "context parallelism: micro-batches shared by 2, 4 or 8 replicas without pipelines",
    ]


def _write(folder: Path, asked: schema.Gain, rows: list[Gain], known: Baseline, phase: Phase) -> None:
    """Figures and numbers, the latter last."""
    with styled():
        figure = phase_figure(phase, asked.lengths)
    paths = [folder / f"gain.{kind}" for kind in ("pdf", "png")]
    for path in paths:
        save(figure, path, path.suffix[1:])
    body = {
        "schema": SCHEMA,
        "lengths": asked.lengths,
        "baseline": asdict(known),
        "gains": [asdict(row) | {"saves": row.saves} for row in rows],
        "tail_mass": phase.mass,
        "padding": phase.padding,
        "penalties": PENALTIES.tolist(),
        "masses": MASSES.tolist(),
        "winners": list(WINNERS),
        "winner": {f"{slack:g}": winner.tolist() for slack, winner in phase.winner.items()},
    }
    write_atomically(folder / "summary.json", pretty(body))
    sys.stdout.write("".join(f"wrote {path}\n" for path in (*paths, folder / "summary.json")))
