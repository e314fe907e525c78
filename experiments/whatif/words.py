"""Words of a question: durations and budgets as people write them, and back."""

import math
import re

from lobra.errors import BadInput
from workloads.arrivals.nouns import Budget, BudgetUnit

UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+")
PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")
BUDGETS: tuple[BudgetUnit, ...] = ("steps", "tokens", "epochs")


def seconds_of(key: str, text: str) -> float:
    """A duration, 0 or more: 8h, 1h30m, 90s, 2d, 1w, or plain seconds."""
    words = text.strip().replace(" ", "")
    if DURATION.fullmatch(words):
        return math.fsum(float(number) * UNITS[unit] for number, unit in PART.findall(words))
    try:
        seconds = float(words)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise BadInput(f"{key} is {text!r}; give a duration such as 8h, 90m, 1h30m or 2d, or seconds")
    return seconds


def some_seconds(key: str, text: str | None) -> float | None:
    """The same above 0; None where nothing is given."""
    if text is None:
        return None
    seconds = seconds_of(key, text)
    if seconds == 0:
        raise BadInput(f"{key} is {text!r}; it must be above 0")
    return seconds


def budget_of(key: str, text: str) -> Budget:
    """A budget: 800 steps, 5e6 tokens, 3 epochs, or plain steps."""
    number, _, unit = text.strip().partition(" ")
    unit = unit.strip() or "steps"
    for known in BUDGETS:
        if unit in (known, known.removesuffix("s")):
            try:
                return Budget(float(number), known)
            except ValueError:
                break
    raise BadInput(f"{key} is {text!r}; give a budget such as '800 steps', '5e6 tokens' or '3 epochs'")


def told(seconds: float) -> str:
    """A duration for people, three figures of it."""
    for unit in "wdhm":
        if seconds >= 2 * UNITS[unit] and unit != "w":
            return f"{seconds / UNITS[unit]:.3g} {unit}"
    return f"{seconds:.3g} s"
