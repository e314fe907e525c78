"""The verb `study`: play a study, collect it, print and draw what follows from it."""

import sys
from pathlib import Path

from experiments import schema
from experiments.failures import DONE, INTERNAL, PARTIAL
from experiments.figures import FORMATS, save
from experiments.study.catalogue import study_of
from experiments.study.engine import play_points
from experiments.study.point import SWEEPS, Results, Study
from experiments.study.results import cells, csv_text, read_study, write_study
from experiments.study.style import styled
from experiments.tables import print_table
from lobra.errors import BadInput
from lobra.files import write_atomically

DRAWN = {"smoke": ("pdf",), "paper": ("pdf", "png")}  # `lobra figure` has all formats


def study(asked: schema.Study, folder: Path) -> int:
    """Play all points and tell of them; 0, or 4 where some failed, or the code of the first where all did."""
    if asked.sweep not in SWEEPS:
        raise BadInput(f"sweep is {asked.sweep!r}; choose from {', '.join(SWEEPS)}")
    if asked.seed < 0:
        raise BadInput(f"seed is {asked.seed}; it must not be negative")
    chosen = study_of(asked.study)
    ended = play_points(chosen.points(asked.sweep), folder, seed=asked.seed, jobs=asked.jobs)
    numbers = write_study(folder, asked.study, asked.sweep, asked.seed, ended)
    failed = {name: each for name, each in ended.items() if each.result is None}
    if len(failed) < len(ended):
        tell(chosen, asked.study, read_study(folder, asked.study), folder, DRAWN[asked.sweep])
    for name, each in failed.items():
        sys.stdout.write(f"{name} failed: {each.reason}\n")
    sys.stdout.write(f"{len(ended) - len(failed)} of {len(ended)} points done; numbers {numbers}\n")
    sys.stdout.write(f"wrote {folder / 'study.json'}\n")
    if not failed:
        return DONE
    return (
        PARTIAL if len(failed) < len(ended) else next((e.exit_code for e in failed.values() if e.exit_code), INTERNAL)
    )


def tell(chosen: Study, name: str, results: Results, folder: Path, formats: tuple[str, ...]) -> None:
    """Table, sentences and figure: printed, and written beside the results."""
    rows, notes = chosen.table(results), chosen.notes(results)
    print_table(*cells(rows), sys.stdout)
    sys.stdout.write("".join(f"{line}\n" for line in notes))
    write_atomically(folder / f"{name}.csv", csv_text(rows))
    write_atomically(folder / f"{name}.txt", "".join(f"{line}\n" for line in notes))
    sys.stdout.write(f"wrote {folder / f'{name}.csv'}\nwrote {folder / f'{name}.txt'}\n")
    for path in drawn(name, results, folder, formats):
        sys.stdout.write(f"wrote {path}\n")


def drawn(name: str, results: Results, folder: Path, formats: tuple[str, ...], output: str | None = None) -> list[Path]:
    """The figure of a study in these formats, or in the one file that output names; none where it draws none."""
    with styled():
        figure = study_of(name).figure(results)
    if figure is None:
        return []
    paths = [folder / f"{name}.{kind}" for kind in formats]
    if output is not None:
        formats = formats if len(formats) == 1 else (_kind(output),)
        paths = [Path(output)]
    for path, kind in zip(paths, formats, strict=True):
        save(figure, path, kind)
    return paths


def _kind(output: str) -> str:
    kind = Path(output).suffix.removeprefix(".")
    if kind not in FORMATS:
        raise BadInput(f"output is {output!r}; let it end in {', '.join('.' + each for each in FORMATS)}")
    return kind
