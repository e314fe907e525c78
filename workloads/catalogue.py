"""Workloads by name.

lobra12: all tasks of the paper. lobra6: those of its 7B experiments, 832 sequences a step. lobra4: those of its
scalability experiments, 352 sequences a step and copy. real5: five real sets of lengths, 128 sequences each.
"""

from dataclasses import replace
from typing import Any

from lobra.errors import BadInput
from lobra.spec import Tenant
from workloads.published import Task, paper_tasks, real_task
from workloads.reshaped import reshaped
from workloads.sampled import SampledWorkload
from workloads.samplers import check_sampler
from workloads.scaling import with_total
from workloads.sources import Endless
from workloads.strict_yaml import nearest
from workloads.table import LengthTable, tabulate

LOBRA6 = ("dolly_15k", "evol_instruct_110k", "xsum", "commitpackft", "meetingbank", "python_code_instructions_18k")
LOBRA4 = ("evol_instruct_110k", "commitpackft", "billsum", "pubmedqa_artificial")
REAL5 = ("gsm8k", "math_test", "pubmedqa_pqal", "qmsum_topic_segments", "arxiv_summarization")
NAMES = ("lobra12", "lobra6", "lobra4", "real5")


def named_workload(
    name: str,
    *,
    seed: int = 0,
    sampler: str = "iid",
    overlong: str = "truncate",
    max_length: int = 16384,
    batch_size: int | None = None,
    copies: int = 1,
    meetingbank: str = "alternative",
    tenants: tuple[str, ...] = (),
    spread: float = 1.0,
    skew: float = 1.0,
) -> SampledWorkload:
    """A published workload.

    max_length lowers the context limits that exceed it. batch_size is the total of a step, shared out in the paper's
    proportions. copies repeats every tenant under the names `x`, `x-2`, `x-3`, ... tenants picks some of them by name
    (without the copies' suffix); (): all. spread and skew change the shape of every law of lengths about its mean (see
    `workloads.reshaped`). BadInput where a value is wrong, Infeasible where overlong is reject and an
    over-long sequence is certain to come.
    """
    if type(copies) is not int or copies < 1:
        raise BadInput(f"copies is {copies!r}; it must be a whole number >= 1")
    tasks = [
        replace(task, name=task.name if copy == 1 else f"{task.name}-{copy}")
        for copy in range(1, copies + 1)
        for task in _picked(_tasks(name, meetingbank), tenants, name)
    ]
    chosen = [_tenant(task, overlong, max_length) for task in tasks]
    if batch_size is not None:
        chosen = with_total(chosen, batch_size)
    sources = tuple(Endless(_table(task, spread, skew)) for task in tasks)
    return SampledWorkload(tuple(chosen), sources, seed, check_sampler(sampler))


def _tasks(name: str, meetingbank: str) -> list[Task]:
    if name not in NAMES:
        raise BadInput(f"there is no workload {name!r}; {nearest(name, NAMES)}")
    paper = paper_tasks(meetingbank)
    if name == "real5":
        return [real_task(dataset) for dataset in REAL5]
    chosen = {"lobra12": tuple(paper), "lobra6": LOBRA6, "lobra4": LOBRA4}[name]
    return [paper[task] for task in chosen]


def _picked(tasks: list[Task], names: tuple[str, ...], workload: str) -> list[Task]:
    known = {task.name: task for task in tasks}
    for name in names:
        if name not in known:
            raise BadInput(f"tenants: workload '{workload}' has no tenant {name!r}; {nearest(name, known)}")
    return [known[name] for name in names] if names else tasks


def _table(task: Task, spread: float, skew: float) -> LengthTable:
    owner = f"tenant '{task.name}'"
    return tabulate(reshaped(task.lengths, spread, skew, owner), owner)


def _tenant(task: Task, overlong: Any, max_length: int) -> Tenant:
    if type(max_length) is not int or max_length < 1:
        raise BadInput(f"max_length is {max_length!r}; it must be a whole number of tokens >= 1")
    limit = min(task.context_limit, max_length)
    return Tenant(task.name, task.batch_size, limit, overlong=overlong, source=task.source)
