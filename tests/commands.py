"""Running the command line in tests: in this process, which is quick, or in one of its own."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

HOME = Path(__file__).parents[1]
Done = subprocess.CompletedProcess


def lobra(*arguments: str, cwd: Path) -> "Done[str]":
    """`lobra ARGUMENTS` in this process."""
    from experiments.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["lobra", *arguments]),
        mock.patch.dict(os.environ),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main()
        except SystemExit as end:  # Hydra ends so after --help
            code = end.code if isinstance(end.code, int) else 1
    return Done(arguments, code, out.getvalue(), err.getvalue())


def lobra_process(*arguments: str, cwd: Path, **environment: str) -> "Done[str]":
    """`lobra ARGUMENTS` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "experiments.cli", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(HOME)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def check_refused(done: "Done[str]", code: int, *said: str) -> None:
    """One clear line, no traceback, the right code."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("lobra: ")
    assert "Traceback" not in done.stderr + done.stdout
    for text in said:
        assert text in lines[0], done.stderr
    assert done.returncode == code
