"""`lobra prepare`: text and a tokenizer made into a token store."""

import sys
from dataclasses import asdict
from pathlib import Path

from experiments.rundir import SCHEMA, pretty
from experiments.schema_executor import Prepare
from lobra.errors import BadInput
from lobra.files import write_atomically
from workloads.prepare import prepare as make_store
from workloads.text import Template, template_of
from workloads.tokenizer import open_tokenizer


def prepare(config: Prepare, folder: Path) -> int:
    """Do the verb: the store, and `summary.json` in the folder."""
    if config.template is not None and config.fields:
        raise BadInput("template: give either fields, such as fields=[question,answer], or template")
    if config.template is None and not config.fields:
        raise BadInput("fields: give the names of the fields, prompt first, answer last, as fields=[question,answer]")
    template = Template(config.template) if config.template is not None else template_of(config.fields)
    store = Path(config.store) if config.store is not None else folder / "store"
    counts = make_store(
        Path(config.text),
        Path(config.tokenizer),
        template,
        store,
        turns=config.turns,
        begin=config.begin,
        end=config.end,
        limit=config.limit,
    )
    write_atomically(folder / "summary.json", pretty({"schema": SCHEMA, "store": str(store), **asdict(counts)}))
    for name, count in asdict(counts).items():
        sys.stdout.write(f"{name:12}{count}\n")
    sys.stdout.write(_borders(config))
    sys.stdout.write(f"wrote {store}\nname it as `store: {store}` in a tenants' file\n")
    return 0


def _borders(config: Prepare) -> str:
    """The tokens that stand around every sequence; whoever knows the model sees here whether they are right."""
    tool = open_tokenizer(Path(config.tokenizer), "prepare", config.begin, config.end)
    begin = " ".join(map(tool.name, tool.begin))
    begin = begin or "none (the tokenizer puts none; if the model wants one, name it: \"begin='<s>'\")"
    return f"{'begin':12}{begin}\n{'end':12}{tool.name(tool.end)}\n"
