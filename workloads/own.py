"""The user's own tenants: a YAML file that names each tenant, how it trains, and where its sequences come from.

    tenants:
    - name: support
      batch_size: 32
      context_limit: 4096
      overlong: truncate          # any field of lobra.spec.Tenant
      text: support.jsonl         # one source: text with tokenizer and fields (or template),
      tokenizer: tokenizer.json
      fields: [question, answer]  # begin and end name the tokens around a sequence where the tokenizer's own are wrong
    - {name: logs, batch_size: 16, context_limit: 8192, lengths: logs.csv}      # a column `tokens`,
    - {name: mails, batch_size: 16, context_limit: 2048, store: stores/mails}   # a folder made by `lobra prepare`,
    - {name: maths, batch_size: 64, context_limit: 2048, dataset: gsm8k}        # a shipped set,
    - name: reports                                                             # or a law of lengths
      batch_size: 8
      context_limit: 16384
      family: {family: shifted_lognormal, shift: 50, mu: 6, sigma: 0.7}

Paths are relative to the YAML file.
"""

from pathlib import Path
from typing import Any

from lobra.errors import BadInput
from workloads.counts import read_counts
from workloads.laws import read_law
from workloads.published import dataset_task
from workloads.sampled import SampledWorkload
from workloads.samplers import check_sampler
from workloads.scaling import with_total
from workloads.sources import Endless, Source, without_empty
from workloads.stored import store_rows
from workloads.strict_yaml import LARGEST_FILE, mapping, read_yaml, show
from workloads.table import tabulate
from workloads.tenants import TENANT_FIELDS, read_tenant
from workloads.text import Template, template_of, text_rows

SOURCES = ("lengths", "text", "store", "family", "dataset")
TEXT_KEYS = ("tokenizer", "fields", "template", "begin", "end")


def own_workload(
    path: Path,
    *,
    seed: int = 0,
    sampler: str = "iid",
    overlong: str = "reject",
    max_length: int | None = None,
    batch_size: int | None = None,
) -> SampledWorkload:
    """The workload that this YAML file describes.

    overlong is the policy of tenants that name none; max_length lowers the context limits that exceed it; batch_size
    is the total of a step, shared out in proportion to the tenants' own. BadInput where the file is wrong, Infeasible
    where a policy is reject and an over-long sequence is certain to come.
    """
    if max_length is not None and (type(max_length) is not int or max_length < 1):
        raise BadInput(f"max_length is {max_length!r}; it must be a whole number of tokens >= 1")
    bodies = _bodies(path)
    defaults = {"overlong": overlong}
    tenants = [read_tenant(defaults | body, owner, max_length) for owner, body in bodies]
    sources = tuple(_source(body, owner, path.parent) for owner, body in bodies)
    if batch_size is not None:
        tenants = with_total(tenants, batch_size)
    return SampledWorkload(tuple(tenants), sources, seed, check_sampler(sampler))


def store_folders(path: Path) -> dict[str, Path | None]:
    """The token store of each tenant of this YAML file by name; None for a tenant with another source."""
    return {
        body["name"]: _file(body, "store", owner, path.parent) if "store" in body else None
        for owner, body in _bodies(path)
    }


def text_tenants(path: Path) -> tuple[str, ...]:
    """Names of the tenants of this YAML file whose source is text: it can be planned with, but not yet trained on."""
    return tuple(body["name"] for _, body in _bodies(path) if "text" in body)


def _bodies(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Every tenant's keys, with the words by which an error names it."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)  # enough to see that it is too large
    except OSError as error:
        raise BadInput(f"{path}: it cannot be read ({error.strerror}); give the path of a YAML file") from None
    document = mapping(read_yaml(raw, str(path)), str(path), ("tenants",), ("tenants",))
    listed = document["tenants"]
    if not isinstance(listed, list) or not listed:
        raise BadInput(f"{path}: tenants is {show(listed)}; it must be a list of at least one tenant")
    bodies = []
    seen: dict[str, str] = {}
    for number, entry in enumerate(listed, 1):
        body = mapping(entry, f"{path}: tenant {number}", (*TENANT_FIELDS, *SOURCES, *TEXT_KEYS), ("name",))
        name = body["name"]
        if not isinstance(name, str):
            raise BadInput(f"{path}: tenant {number}: name is {show(name)}; it must be text, in quotes if need be")
        if name.casefold() in seen:
            raise BadInput(
                f"{path}: two tenants are called '{seen[name.casefold()]}' and '{name}'; "
                "names must differ by more than case"
            )
        seen[name.casefold()] = name
        bodies.append((f"{path}: tenant '{name}'", body))
    return bodies


def _source(body: dict[str, Any], owner: str, folder: Path) -> Source:
    given = [key for key in SOURCES if key in body]
    if len(given) != 1:
        raise BadInput(
            f"{owner}: it has {' and '.join(given) or 'no source'}; give exactly one of {', '.join(SOURCES)}"
        )
    for key in TEXT_KEYS:
        if key in body and given != ["text"]:
            raise BadInput(f"{owner}: '{key}' goes with text, but its source is {given[0]}; leave it out")
    if "lengths" in body:
        counts = read_counts(_file(body, "lengths", owner, folder), owner)
        return without_empty(counts, counts, owner)
    if "text" in body:
        text, tokenizer = (_file(body, key, owner, folder) for key in ("text", "tokenizer"))
        begin, end = (_token(body, key, owner) for key in ("begin", "end"))
        return text_rows(text, tokenizer, _template(body, owner), owner, begin=begin, end=end)
    if "store" in body:
        return store_rows(_file(body, "store", owner, folder), owner)
    if "family" in body:
        return Endless(tabulate(read_law(body["family"], owner), owner))
    if not isinstance(body["dataset"], str):
        raise BadInput(f"{owner}: dataset is {show(body['dataset'])}; it must be a name")
    return Endless(tabulate(dataset_task(body["dataset"]).lengths, owner))


def _file(body: dict[str, Any], key: str, owner: str, folder: Path) -> Path:
    value = body.get(key)
    if not isinstance(value, str) or not value or "\0" in value:
        raise BadInput(f"{owner}: {key} is {show(value)}; it must be the path of a file")
    return folder / value


def _token(body: dict[str, Any], key: str, owner: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise BadInput(f"{owner}: {key} is {show(value)}; it must be the text of a token, in quotes if need be")
    return value


def _template(body: dict[str, Any], owner: str) -> Template:
    if ("fields" in body) == ("template" in body):
        raise BadInput(f"{owner}: give either fields, such as [question, answer], or template")
    value = body.get("template")
    if "fields" in body:
        fields = body["fields"]
        if not isinstance(fields, list) or not fields or not all(isinstance(field, str) for field in fields):
            raise BadInput(f"{owner}: fields is {show(fields)}; it must be a list of names, prompt first, answer last")
        try:
            return template_of(fields)
        except BadInput as error:
            raise BadInput(f"{owner}: {error}") from None
    if not isinstance(value, str):
        raise BadInput(f"{owner}: template is {show(value)}; it must be text")
    try:
        return Template(value)
    except BadInput as error:
        raise BadInput(f"{owner}: {error}") from None
