"""What an earlier start of a real run has acknowledged: looked at before anything is overwritten, kept on a refusal.

A real run that is started again goes on where it stopped, and its streams are written anew from their beginning. A
start that is refused must leave streams, summary and mark of completion as they were: they tell of adapters that exist.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from experiments import schema
from experiments.schema_executor import Torch
from experiments.torch_backend import JOB
from lobra import stream
from lobra.errors import BadInput, Infeasible

TRACE = "trace.jsonl"
STREAMS = ("directives.jsonl", TRACE, "timings.jsonl", f"{JOB}/run.json", f"{JOB}/directives.jsonl")
MARKS = ("DONE", "summary.json", "run.json", "config.yaml")


def refuse_shorter(config: schema.World, folder: Path, policies: Sequence[str]) -> None:
    """BadInput where a real run would have to forget batches that it has trained; policies: folders of a comparison."""
    if not isinstance(config.backend, Torch):
        return
    for job in jobs_in(folder, policies):
        trained = batches_of(job)
        if trained and not config.backend.resume:
            raise BadInput(
                f"run_dir {job.parent}: it holds checkpoints of an earlier run; resume it, or choose another directory"
            )
        if config.steps < trained:
            raise BadInput(
                f"steps is {config.steps}, but the run in {job.parent} has already trained {trained}; ask for more to "
                "go on, or choose another run_dir"
            )


def jobs_in(folder: Path, policies: Sequence[str]) -> list[Path]:
    """The folders of the executor in a run's groups, or in those of these policies of a comparison."""
    found = [job for place in (".", *policies) for job in (folder / place).glob(f"[0-9]*/{JOB}")]
    return sorted(job for job in found if job.parent.name.isdigit())


def batches_of(job: Path) -> int:
    """How many batches the newest checkpoint holds; 0 where there is none, or its trace does not tell."""
    names = [path.name.removeprefix("step-") for path in (job / "checkpoints").glob("step-*")]
    plans = max((int(name) for name in names if name.isdigit()), default=0)  # a batch may have several step plans
    try:
        reports = list(islice(stream.read(job / TRACE, complete=False), plans)) if plans else []
    except BadInput:
        return 0
    return len({report.step for report in reports})


@contextmanager
def kept(folder: Path, names: Sequence[str], grows: str | None = None) -> Iterator[None]:
    """Put these files of the folder aside; back on a refusal, away otherwise.

    grows: one of them that tells of more than before once it is longer; then what is new stays even on a refusal.
    """
    places = [(folder / name, folder / f"{name}.before") for name in names if (folder / name).is_file()]
    for file, aside in places:
        file.replace(aside)
    try:
        yield
    except (BadInput, Infeasible):
        if not any(file.name == grows and _longer(file, aside) for file, aside in places):
            for file, aside in places:
                aside.replace(file)
        raise
    finally:
        for _, aside in places:
            aside.unlink(missing_ok=True)


def _longer(file: Path, before: Path) -> bool:
    return file.exists() and file.stat().st_size > before.stat().st_size
