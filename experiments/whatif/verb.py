"""The verb `whatif`: one question, its answer printed and written."""

import sys
from pathlib import Path

from experiments import schema
from experiments.rundir import pretty, read_json
from experiments.whatif.asking import asked_of
from experiments.whatif.catalogue import answerer
from experiments.whatif.telling import tell
from lobra.files import write_atomically


def whatif(config: schema.Whatif, folder: Path) -> int:
    """Answer, tell, write `summary.json`; 0, or 3 where the answer is that nothing fits, 4 where it is undecided."""
    answers = answerer(config.question)
    asked = asked_of(config, folder, str(read_json(folder / "run.json")["config_hash"]))
    answer = answers(asked)
    tell(answer)
    write_atomically(folder / "summary.json", pretty(answer.as_dict()))
    sys.stdout.write(f"wrote {folder / 'summary.json'}\n")
    return answer.exit_code


def files_read(config: schema.Whatif) -> list[Path]:
    """Files beside the workload's that an answer may rest on; words that name no file are harmless here."""
    named = (config.arrivals.file, config.prices, config.tenant, config.cost.file, config.mix.demand, config.samples)
    return [Path(name) for name in named if name is not None]
