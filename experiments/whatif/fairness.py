"""Who pays more than alone, and what became of the quotes: of the first play, under the rule of accounting."""

from experiments.capacity.accounting import Bill
from experiments.capacity.quotes import alone_gpu_seconds, more_than_alone, quotes
from experiments.whatif.answer import Cell, Sheet
from experiments.whatif.playing import Played

SHOWN = 30  # tenants; of a long stream the first to come


def core_of(played: Played, bill: Bill) -> str:
    """The core's first condition as a sentence."""
    over = more_than_alone(played.histories[0], played.oracle, bill, played.factors[0])
    if not over:
        return f"Under the rule {bill.rule} nobody pays more than alone."
    worst = over[0]
    who = f"'{worst.tenants[0]}' pays {worst.share:.0%} more than alone"
    others = "" if len(over) == 1 else f", the most of {len(over)} tenants who do"
    return f"Under the rule {bill.rule} {who}{others}."


def fairness_sheet(played: Played, bill: Bill) -> Sheet:
    """Quote at the first step, final bill and the price of being alone; GPU hours."""
    history, factor = played.histories[0], played.factors[0]
    alone = alone_gpu_seconds(history, played.oracle, factor)
    told = {each.tenant: each for each in quotes(history, played.oracle, bill, factor)}
    rows: list[tuple[Cell, ...]] = []
    for record in history.records[:SHOWN]:
        name = record.job.name
        if name in told:
            found = told[name]
            more = 100 * (found.final / alone[name] - 1)
            rows.append((name, found.quoted / 3600, found.final / 3600, 100 * found.change, alone[name] / 3600, more))
    columns = ("tenant", "quoted GPU h", "billed GPU h", "change %", "alone GPU h", "over alone %")
    return Sheet(f"quotes and bills, rule {bill.rule}", columns, tuple(rows))
