"""Two sections of the study's page, the referee's test and the fair matrix, in Markdown; every number from results.

`python -m experiments.study.fair_page REFEREE_DIR FAIR_DIR` prints them from the study.json of both directories.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.study.fair_cells import Compared, compared
from experiments.study.fair_matrix import ADAPTER_COSTS, BATCHINGS, MODELS, PACKED, RECOMPUTE, Options
from experiments.study.fair_paired import saved
from experiments.study.fair_verdicts import Verdict, moot
from experiments.study.fair_waterfall import models, rows
from experiments.study.point import Results
from experiments.study.referee_cases import PLANS, cases
from experiments.study.referee_scope import percent, scope
from experiments.study.results import read_study

LEVELS = {"none": "no", "full": "full", "some": "partial"}


def referee_section(results: Results) -> str:
    """The referee's test: a row a setting and choice of plans, whether packing is moot, the scope."""
    told = list(cases(results))
    if not told:
        return ""
    head = (
        "setting",
        "LobRA's plans",
        "packing alone",
        "LobRA of padded",
        "LobRA of packed",
        "LobRA packed of packed",
        "falsifier: LobRA padded",
        "falsifier: LobRA packed",
        "steps",
    )
    body = [
        (
            case.setting,
            case.plans,
            percent(case.packing),
            percent(case.lobra),
            percent(case.against_packed),
            percent(case.both_packed),
            _both(case.padded_verdict),
            _both(case.packed_verdict),
            str(len(case.bodies["task_fused"]["gpu_seconds_per_step"])),
        )
        for case in told
    ]
    gains = moot([case.packing for case in told if case.plans == PLANS[0]])
    return "\n".join(
        (
            "## The referee's test",
            "",
            markdown(head, body),
            "",
            f"Packing is moot (10 % or less everywhere): {gains}. S{scope(told)[1:]}.",
        )
    )


def fair_section(results: Results) -> str:
    """The fair matrix: verdicts counted, packed cells in full, the waterfall."""
    told = compared(results)
    if not told:
        return ""
    names = models(results)
    parts = ["## A fair baseline", "", "### Verdicts of all cells", "", _counted(names, told), ""]
    for model in names:
        here = [cell for cell in told if cell.cell.model == model]
        parts += [f"### {MODELS.get(model, model)}: what the mix saves of the best equal replicas", "", _grid(here), ""]
    parts += ["### Ingredient by ingredient", "", _waterfall(results)]
    return "\n".join(parts)


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: Sequence[str]) -> int:
    """Print both sections."""
    if len(arguments) != 2:
        sys.stderr.write("give the directories of `lobra study referee` and `lobra study fair`\n")
        return 2
    referee, fair = (read_study(Path(each), name) for each, name in zip(arguments, ("referee", "fair"), strict=True))
    sys.stdout.write(f"{referee_section(referee)}\n\n{fair_section(fair)}\n")
    return 0


def _counted(names: Sequence[str], told: Sequence[Compared]) -> str:
    """A row a model, verdict and cost of an adapter run; in brackets: if prices are right."""
    verdicts: dict[str, Callable[[Compared, int], Verdict | None]] = {
        "falsifier, LobRA padded": lambda cell, times: cell.falsifier(times),
        "falsifier, LobRA packed": lambda cell, times: cell.falsifier(times, packed=True),
        "survival": lambda cell, times: cell.survival(times),
    }
    body = []
    for model in names:
        here = [cell for cell in told if cell.cell.model == model]
        for name, verdict in verdicts.items():
            for times in ADAPTER_COSTS:
                known = [found for cell in here if (found := verdict(cell, times)) is not None]
                words, given = Counter(v.word for v in known), Counter(v.given_prices for v in known)
                counts = [f"{words[word]} ({given[word]})" for word in ("fires", "does not", "undecided")]
                flags = ", ".join(dict.fromkeys(flag for found in known for flag in found.flags))
                body.append((model, name, f"{times}x", *counts, flags or "measured"))
    return markdown(("model", "verdict", "adapter run", "fires", "does not", "undecided", "rest on"), body)


def _grid(told: Sequence[Compared]) -> str:
    """Rows: options; columns: batchings; a cell: what the mix saves, and the verdict if it is decided."""
    found = {(cell.cell.memory, cell.cell.options, cell.cell.batching): cell for cell in told}
    batchings = [name for name in BATCHINGS if any(cell.cell.batching == name for cell in told)]
    settings = dict.fromkeys((cell.cell.memory, cell.cell.options) for cell in told)
    body = []
    for memory, options in sorted(settings, key=_order):
        row = [memory, LEVELS[options.recompute], _yes(options.cp), _yes(options.fsdp)]
        for batching in batchings:
            cell = found.get((memory, options, batching))
            row.append("" if cell is None else _saving(cell))
        packed = found.get((memory, options, PACKED))
        row.append("" if packed is None else f"{packed.equal.summary} / {packed.mix.summary}")
        body.append(row)
    head = ("memory", "recomputation", "cp", "sharded", *batchings, "plans where packed: equal / mix")
    return markdown(head, body)


def _saving(cell: Compared) -> str:
    value, ends = saved(cell.saving())
    interval = "" if ends is None else f" ({100 * ends[0]:.0f}..{100 * ends[1]:.0f})"
    words = {"fires": "survives", "does not": "does not", "undecided": "undecided"}
    return f"{100 * value:.1f} %{interval} {words[cell.survival().word]}"


def _waterfall(results: Results) -> str:
    body = [
        (
            str(row["model"]),
            str(row["order"]),
            str(row["ingredient"]),
            f"{100 * row['left']:.1f} %"
            + ("" if row["low"] is None else f" ({100 * row['low']:.0f}..{100 * row['high']:.0f})"),
            f"{100 * row['saves_of_all']:.1f}",
            str(row["basis"]),
            str(row["plan"]),
        )
        for row in rows(results)
    ]
    return markdown(("model", "order", "ingredient", "left", "points saved", "basis", "plan"), body)


def _both(verdict: Verdict) -> str:
    return f"{verdict}; if prices are right: {verdict.given_prices}"


def _order(setting: tuple[str, Options]) -> tuple[str, bool, bool, int]:
    memory, options = setting
    return memory, options.cp, options.fsdp, RECOMPUTE.index(options.recompute)


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
