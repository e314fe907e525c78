"""Hand arithmetic of LoRA fine-tuning: what a GPU could do, what a token then costs, what must be charged.

A token of LoRA training takes about 4 N operations (N parameters of the frozen base: the forward pass and the gradients
of activations; gradients of frozen weights are not needed). Everything a fleet loses is against this ideal.
"""

from experiments.capacity.money import per_million
from lobra.errors import BadInput
from lobra.spec import positive

OPERATIONS = 4  # a parameter and token


def tokens_per_second(parameters: float, teraflops: float, utilisation: float = 0.4) -> float:
    """Of one GPU at this part of its peak, with nothing lost."""
    positive("ideal", parameters=parameters, teraflops=teraflops, utilisation=utilisation)
    return utilisation * teraflops * 1e12 / (OPERATIONS * parameters)


def ideal_per_million(per_gpu_hour: float, ideal_tokens_per_second: float) -> float:
    """Money for a million tokens at the ideal rate."""
    return per_million(per_gpu_hour / 3600, ideal_tokens_per_second)


def efficiency(useful_tokens: float, gpu_seconds: float, ideal_tokens_per_second: float) -> float:
    """Useful tokens over what the billed GPU seconds could have trained."""
    positive("efficiency", gpu_seconds=gpu_seconds, ideal=ideal_tokens_per_second)
    return useful_tokens / (gpu_seconds * ideal_tokens_per_second)


def break_even(ideal_price: float, charged: float) -> float:
    """The efficiency at which what is charged for a million tokens pays for the GPUs; above 1 nothing does."""
    positive("break-even", ideal_price=ideal_price, charged=charged)
    return ideal_price / charged


def to_charge(cost_per_million: float, margin: float) -> float:
    """What leaves this margin: a part of the price, not of the cost (0.3 of 1.00 leaves 0.70 for the GPUs)."""
    if not 0 <= margin < 1:
        raise BadInput(f"price: margin is {margin}; it is a part of the price, from 0 to below 1")
    return cost_per_million / (1 - margin)
