"""Question 12, `validate`: can the answers be trusted? A real run is predicted and both are compared.

The machinery is that of `lobra validate`: the cost model is fitted to a profile of this machine that knows the run's
model, tenants, layout and lengths, and no time of the run itself; the simulator then plays the run's own directives.
"""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.catalogue import cost_model
from experiments.fitting import NAME as COEFFICIENTS
from experiments.rundir import git_commit, read_json, version
from experiments.schema_executor import Validate
from experiments.statistics import mean_interval
from experiments.study.referee_playing import counted
from experiments.traces import plan_of
from experiments.validate import validate
from experiments.whatif.answer import Answer, Chart, Figure, Series, Sheet
from experiments.whatif.asking import Asked
from experiments.whatif.numbers import plain, quantile_figure
from lobra import stream
from lobra.errors import BadInput

ASKS = "Can the simulator be trusted for this run?"
LIMIT = 0.10  # mean absolute error of a step beyond which the answer is no
FOLDER = "validate"  # below the run directory: profile, coefficients, predicted trace


def answer(asked: Asked) -> Answer:
    """Predicted against measured step seconds; exit code 3 where they are apart by more than 10 % on average."""
    config = asked.config
    if config.run is None:
        raise BadInput("run: a value is missing; give run=DIR of a run that the executor played (backend=torch)")
    folder = asked.folder / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    plain_config = Validate(run=config.run, samples=config.samples, again=0, backend=config.backend)
    with contextlib.redirect_stdout(io.StringIO()):  # its own table; ours says the same
        validate(plain_config, folder)
    body = read_json(folder / "summary.json")
    beyond = _extrapolated(Path(config.run) / "0", folder)
    errors = errors_of(body)
    mean = float(np.abs(errors).mean())
    trusted = mean <= LIMIT
    return Answer(
        asked.question,
        ASKS,
        "yes" if trusted else "no",
        _sentences(body, errors, trusted=trusted, beyond=beyond),
        tuple(_figures(body, errors, asked.seeds[0])),
        (_sheet(body),),
        (_chart(body),),
        "measured",
        beyond,
        {
            "run": config.run,
            "machine": f"{body['place']['hardware']}, {body['place']['ranks']} ranks on {body['place']['cores']} cores",
            "profile noise": f"{body['profile_noise']:.1%} between repeats",
            "configuration": asked.name,
            "version": f"lobra {version('lobra')}, commit {git_commit() or 'unknown'}",
            **({"warnings": "; ".join(body["warnings"])} if body["warnings"] else {}),
        },
        0 if trusted else 3,
    )


def errors_of(body: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Predicted over measured, less 1, of every step but the first, which warms up."""
    pairs = list(zip(body["predicted_seconds"], body["measured_seconds"], strict=True))
    warm = pairs[1:] if len(pairs) > 1 else pairs
    return np.array([says / took - 1 for says, took in warm])


def _extrapolated(group: Path, folder: Path) -> bool:
    """Whether a micro-batch of the run lies beyond what was timed."""
    plan = plan_of(group)
    cost = cost_model(plan.model, plan.cluster, form="fitted", file=folder / COEFFICIENTS)
    return bool(counted(stream.read(group / "directives.jsonl"), cost)["extrapolated"])


def _sentences(
    body: dict[str, Any], errors: np.ndarray[Any, np.dtype[np.float64]], *, trusted: bool, beyond: bool
) -> tuple[str, ...]:
    mean, worst = 100 * float(np.abs(errors).mean()), 100 * float(errors[np.abs(errors).argmax()])
    word = "Yes" if trusted else "No"
    whole = 100 * (body["ratio"] - 1)
    off = f"off by {mean:.1f} % on average (limit {100 * LIMIT:g} %), at worst by {worst:+.1f} %"
    hull = "Some micro-batches lie beyond what was timed; their prices are extrapolated."
    return (
        f"{word}: step times are {off}; the sum of all steps by {whole:+.1f} %.",
        hull if beyond else "All micro-batches lie within what was timed.",
    )


def _figures(body: dict[str, Any], errors: np.ndarray[Any, np.dtype[np.float64]], seed: int) -> list[Figure]:
    percent = 100 * errors
    interval = mean_interval(np.abs(percent), seed)
    low, high = interval or (None, None)
    count = len(errors)
    return [
        Figure("mean absolute error of a step (MAPE)", float(np.abs(percent).mean()), "%", low, high, samples=count),
        Figure("worst step", float(percent[np.abs(percent).argmax()]), "%", samples=count),
        Figure("bias of a step", float(percent.mean()), "%", samples=count),
        plain("error of all steps together", 100 * (body["ratio"] - 1), "%"),
        quantile_figure("absolute error, p95", np.abs(percent).tolist(), 0.95, "%"),
    ]


def _rows(body: dict[str, Any]) -> Sequence[tuple[int, float, float]]:
    return list(zip(body["numbers"], body["measured_seconds"], body["predicted_seconds"], strict=True))


def _sheet(body: dict[str, Any]) -> Sheet:
    rows = tuple((number, took, says, 100 * (says / took - 1)) for number, took, says in _rows(body))
    return Sheet("by step; the first warms up", ("step", "measured s", "predicted s", "error %"), rows)


def _chart(body: dict[str, Any]) -> Chart:
    steps = tuple(number for number, _, _ in _rows(body))
    series = (
        Series("measured", steps, tuple(took for _, took, _ in _rows(body))),
        Series("predicted", steps, tuple(says for _, _, says in _rows(body))),
    )
    return Chart(
        "line", "predicted against measured", "step", "seconds", series, "step seconds, measured and predicted"
    )
