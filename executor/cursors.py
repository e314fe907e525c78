"""How far each tenant's data was read: counts, and a hash over its sequences that no placement changes."""

import hashlib
import json

from executor.manifest import Cursor
from lobra.plan import StepPlan
from lobra.spec import Tenant

Sequences = dict[int, list[tuple[int, int, int]]]  # by tenant: index, length, labels


def advanced(cursors: dict[str, Cursor], tenants: tuple[Tenant, ...], step: StepPlan) -> dict[str, Cursor]:
    """The cursors after this step plan; tenants without a sequence in it stay where they are."""
    moved = dict(cursors)
    for number, sequences in sorted(_sequences(step).items()):
        name = tenants[number].name
        moved[name] = _advance(cursors.get(name, Cursor()), sorted(sequences))
    return moved


def _sequences(step: StepPlan) -> Sequences:
    found: Sequences = {}
    for replica, work in enumerate(step.work):
        for microbatch in work:
            if microbatch.group and microbatch.group[0] != replica:
                continue
            for row in microbatch.rows:
                for tenant, *rest in row:
                    found.setdefault(tenant, []).append((rest[0], rest[1], rest[2]))
    return found


def _advance(cursor: Cursor, sequences: list[tuple[int, int, int]]) -> Cursor:
    text = cursor.sha256 + json.dumps(sequences, separators=(",", ":"))
    return Cursor(
        cursor.steps + 1,
        cursor.sequences + len(sequences),
        cursor.tokens + sum(length for _, length, _ in sequences),
        cursor.labels + sum(labels for *_, labels in sequences),
        hashlib.sha256(text.encode()).hexdigest(),
    )
