"""Questions by name: the one place that knows them all."""

from collections.abc import Callable

from experiments.whatif import (
    add_tenant,
    cheapest,
    compare,
    frontier,
    max_load,
    min_gpus,
    mix,
    price,
    run,
    sensitivity,
    spot,
    validate,
)
from experiments.whatif.answer import Answer
from experiments.whatif.asking import Asked
from lobra.errors import BadInput

QUESTIONS = {
    "run": "what do these tenants take on this cluster, and when does each finish?",
    "min-gpus": "how few GPUs keep the promise?",
    "cheapest": "which GPU at which provider is cheapest for these tenants?",
    "frontier": "which sizes of the cluster are worth having: finish against cost?",
    "compare": "what does joint training save against one tenant after another, or plain fusing?",
    "add-tenant": "what does one more tenant change for everybody, or does it not fit?",
    "spot": "do spot nodes pay, given how often they are lost?",
    "max-load": "how many tenants a day does this cluster take?",
    "mix": "how many GPUs should be reserved, and how many taken on demand?",
    "price": "what must be charged for a million tokens?",
    "sensitivity": "which assumption matters most, and does the decision flip?",
    "validate": "can the simulator be trusted for this run?",
}


def answerer(name: str) -> Callable[[Asked], Answer]:
    """Who answers the question of that name."""
    match name:
        case "run":
            return run.answer
        case "min-gpus":
            return min_gpus.answer
        case "cheapest":
            return cheapest.answer
        case "spot":
            return spot.answer
        case "frontier":
            return frontier.answer
        case "compare":
            return compare.answer
        case "add-tenant":
            return add_tenant.answer
        case "max-load":
            return max_load.answer
        case "mix":
            return mix.answer
        case "price":
            return price.answer
        case "sensitivity":
            return sensitivity.answer
        case "validate":
            return validate.answer
    raise unknown(name)


def unknown(name: str) -> BadInput:
    """Told with all that may be asked."""
    what = f"there is no question {name!r}" if name else "a value is missing"
    return BadInput(f"question: {what}; ask one of {', '.join(QUESTIONS)}")
