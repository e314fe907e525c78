"""What a failure means: its exit code, and the line that tells of it."""

from executor.failures import Preempted, RankFailure
from experiments.complaints import ConfigurationError, one_line
from lobra.errors import BadInput, Infeasible

DONE, BAD_INPUT, INFEASIBLE, PARTIAL, PREEMPTED, INTERNAL = 0, 2, 3, 4, 5, 6
EXPECTED = (BadInput, Infeasible, Preempted, RankFailure, *ConfigurationError)  # these need no traceback


def exit_code_of(error: BaseException) -> int:
    """2 for bad input, 3 for what cannot be, 5 for what can go on, 6 for a rank's failure or a fault of ours."""
    if isinstance(error, Infeasible):
        return INFEASIBLE
    if isinstance(error, (BadInput, *ConfigurationError)):
        return BAD_INPUT
    return PREEMPTED if isinstance(error, KeyboardInterrupt | Preempted) else INTERNAL


def reason(error: BaseException) -> str:
    """One line."""
    text = one_line(error) if isinstance(error, ConfigurationError) else str(error)
    return " ".join(text.split()) or type(error).__name__
