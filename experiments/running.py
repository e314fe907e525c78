"""The running plan that a command line names: a stream of directives, or the directory of a run."""

from pathlib import Path

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan
from lobra.stream import read

DIRECTIVES = "directives.jsonl"


def plan_file(given: str) -> Path:
    """The stream of directives that `running` names: itself, or in a run's directory; BadInput where there is none."""
    path = Path(given)
    if not path.is_dir():
        if not path.is_file():
            raise BadInput(f"running: {given} does not exist; give a run's directory or its {DIRECTIVES}")
        return path
    if (path / "1").is_dir():
        raise BadInput(f"running: {given} holds the runs of several groups; name one of them, such as {path / '0'}")
    for file in (path / DIRECTIVES, path / "0" / DIRECTIVES):
        if file.is_file():
            return file
    raise BadInput(f"running: {given} holds no {DIRECTIVES}; give the directory of `lobra plan` or `lobra run`")


def running_plan(given: str) -> DeploymentPlan:
    """The latest deployment plan of a stream that may still be written."""
    path, latest = plan_file(given), None
    for directive in read(path, complete=False):
        if isinstance(directive, DeploymentPlan):
            latest = directive
    if latest is None:
        raise BadInput(f"running: {path} holds no deployment plan; give a file that begins with one")
    return latest
