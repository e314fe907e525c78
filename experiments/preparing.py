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
    sys.stdout.write(f"wrote {store}\nname it as `store: {store}` in a tenants' file\n")
    return 0
