"""Checkpoints of made-up states: written, killed in the writing, damaged afterwards."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from executor.adapters import targets
from executor.checkpoint import Draft, newest, read_state
from executor.config import ModelConfig
from executor.manifest import Cursor
from executor.state import KINDS, TenantState, matrix_name
from lobra.spec import Tenant
from small_jobs import MODEL, A, B

CHUNK = 4096  # bytes between two points at which a save can be killed

CONFIG = ModelConfig.of(MODEL)
CURSORS = {"a": Cursor(3, 6, 66, 51, "0" * 64)}


def state(tenant: Tenant = A, seed: int = 0, labels: int = 0) -> TenantState:
    """A tenant's state with every number drawn."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        matrix_name(layer, module, letter): shape
        for layer in range(CONFIG.layers)
        for module in targets(tenant)
        for letter, shape in (
            ("A", (tenant.rank, CONFIG.module_shape(module)[1])),
            ("B", (CONFIG.module_shape(module)[0], tenant.rank)),
        )
    }
    tensors = {
        kind: {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
        for kind in KINDS
    }
    return TenantState(tenant, tensors, updates=7, labels=labels, strikes=1)


def save(
    root: Path, steps: int, *states: TenantState, tick: Callable[[int], None] = lambda _: None, keep: int = 2
) -> Path:
    """A checkpoint of these states, or of one."""
    draft = Draft(root, steps, "numerics", tick, chunk=CHUNK)
    for each in states or (state(),):
        draft.add(each, CONFIG)
    return draft.commit(CURSORS, keep)


def kills(folder: Path, points: int) -> list[bool]:
    """Kill a save at so many points from its first to its last: whether the newest valid checkpoint then loads."""
    questions: list[int] = []
    save(folder / "probe", 2, state(A, 5), state(B, 6), tick=questions.append)
    calls = np.linspace(0, len(questions) - 1, points).astype(int).tolist()
    return [_killed(folder / str(number), call) for number, call in enumerate(calls)]


def _killed(root: Path, call: int) -> bool:
    old, new = state(A, 1), state(A, 5)
    save(root, 1, old)
    child = os.fork()
    if child == 0:
        left = iter(range(call, -1, -1))
        save(root, 2, new, state(B, 6), tick=lambda _: None if next(left) else os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    place, complaints = newest(root)
    if status != -signal.SIGKILL or complaints or place is None:
        return False
    expected = new if place.name == "step-00000002" else old
    loaded = read_state(place, "a")
    return all(
        torch.equal(expected.tensors[kind][name], matrix)
        for kind, matrices in loaded.tensors.items()
        for name, matrix in matrices.items()
    )


def damages(folder: Path, count: int, generator: np.random.Generator, *, cut: bool) -> list[bool]:
    """Damage a file of a checkpoint so many times: whether it is named and the older generation taken."""
    older, newer = save(folder, 1), save(folder, 2)
    files = sorted(path for path in newer.rglob("*") if path.is_file())
    sizes = np.array([path.stat().st_size for path in files], dtype=float)
    chances = (sizes / sizes.sum() + 1 / len(files)) / 2  # every file often, the large ones more often
    found = []
    for _ in range(count):
        file = files[generator.choice(len(files), p=chances)]
        content = file.read_bytes()
        file.write_bytes(_damaged(content, generator, cut=cut))
        place, complaints = newest(folder)
        found.append(place == older and [newer] == [each for each, _ in complaints] and str(file) in complaints[0][1])
        file.write_bytes(content)
    return [*found[:-1], found[-1] and newest(folder) == (newer, [])]


def _damaged(content: bytes, generator: np.random.Generator, *, cut: bool) -> bytes:
    position = int(generator.integers(len(content)))
    if cut:
        return content[:position]
    return content[:position] + bytes([content[position] ^ int(generator.integers(1, 256))]) + content[position + 1 :]
