"""Files of tenants that come with the installation: `shipped:NAME` where a path is asked for."""

from importlib import resources
from pathlib import Path

from lobra.errors import BadInput

PREFIX = "shipped:"


def tenants_file(given: str) -> Path:
    """The file that `workload.file` names: a path, or a shipped file's name behind the prefix."""
    if not given.startswith(PREFIX):
        return Path(given)
    folder = Path(str(resources.files("conf") / "tenants"))
    known = sorted(path.name for path in folder.glob("*.yaml"))
    name = given.removeprefix(PREFIX)
    if name not in known:
        raise BadInput(f"workload.file: no file of tenants called {name!r} is shipped; choose from {', '.join(known)}")
    return folder / name
