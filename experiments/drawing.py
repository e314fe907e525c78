"""`lobra figure NAME`: from finished results to a file."""

import sys
from pathlib import Path

from experiments.fidelity import fidelity_figure, read_fidelity
from experiments.figures import FORMATS, compare_figure, save, timeline_figure
from experiments.rundir import read_json
from experiments.schema_results import Figure
from experiments.study.catalogue import STUDIES
from experiments.study.results import read_study
from experiments.study.verb import drawn as draw_study
from experiments.traces import group_folders, plan_of, reports_of
from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.trace import StepReport


def figure(asked: Figure) -> int:
    """Draw and name the file."""
    if asked.format not in (None, *FORMATS):
        raise BadInput(f"format is {asked.format!r}; choose from {', '.join(FORMATS)}")
    if asked.scale not in ("linear", "log"):
        raise BadInput(f"scale is {asked.scale!r}; choose linear or log")
    run, folder = Path(asked.run), Path(asked.run)
    if asked.name in STUDIES:
        return _study_figure(asked, run)
    if asked.name == "compare":
        drawn = compare_figure(read_json(run / "summary.json"), asked.scale)
    elif asked.name == "timeline":
        drawn = timeline_figure(*_plan_and_report(run, asked.group, asked.step))
    elif asked.name == "fidelity":
        run = run / "fidelity.json" if run.is_dir() else run
        folder = run.parent
        drawn = fidelity_figure(*read_fidelity(run))
    else:
        raise BadInput(
            f"name: there is no figure {asked.name!r}; choose compare, timeline, fidelity or {', '.join(STUDIES)}"
        )
    kind = asked.format or FORMATS[0]
    path = Path(asked.output) if asked.output else folder / f"{asked.name}.{kind}"
    save(drawn, path, kind)
    sys.stdout.write(f"wrote {path}\n")
    return 0


def _study_figure(asked: Figure, run: Path) -> int:
    """The figure of a study, in all formats where neither format nor output names one."""
    results = read_study(run, asked.name)
    formats = FORMATS if asked.format is None else (asked.format,)
    for path in draw_study(asked.name, results, run if run.is_dir() else run.parent, formats, asked.output):
        sys.stdout.write(f"wrote {path}\n")
    return 0


def _plan_and_report(run: Path, group: int, step: int) -> tuple[DeploymentPlan, StepReport]:
    folders = group_folders(run)
    if not 0 <= group < len(folders):
        raise BadInput(f"group is {group}; {run} has groups 0..{len(folders) - 1}")
    report = next(reports_of(folders[group], first=step, steps=1), None)
    if report is None:
        raise BadInput(f"step is {step}; {folders[group]} has fewer steps")
    return plan_of(folders[group]), report
