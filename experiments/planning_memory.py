"""Where the memory of a plan's replicas goes, at the command line and in the summary."""

from dataclasses import asdict
from typing import Any

from costmodel.memory_report import COLUMNS, Account, account_cells, account_of
from lobra.plan import DeploymentPlan
from lobra.protocols import CostModel

__all__ = ["COLUMNS", "memory_accounts", "memory_cells", "memory_rows"]


def memory_accounts(made: DeploymentPlan, cost: CostModel) -> list[Account]:
    """The account of each kind of replica, on its heaviest stage; none where max tokens come without a count."""
    configs = sorted({replica.config for replica in made.replicas})
    found = [account_of(cost, config, made.tenants) for config in configs]
    return [row for row in found if row is not None]


def memory_rows(accounts: list[Account]) -> list[dict[str, Any]]:
    """As they stand in a summary: GiB of one GPU."""
    return [
        {
            "tp": row.config.tp,
            "pp": row.config.pp,
            "recompute": row.config.recompute,
            "stage": row.stage,
            "max_tokens": row.granted,
            "fitting_tokens": row.tokens,
            "gib": {name: round(value, 3) for name, value in asdict(row.breakdown).items()},
        }
        for row in accounts
    ]


def memory_cells(accounts: list[Account]) -> list[tuple[str, ...]]:
    """As people read them, under COLUMNS."""
    return [account_cells(row) for row in accounts]
