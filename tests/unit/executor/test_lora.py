"""Three back ends of one linear layer, against autograd over W + s B A."""

import pytest
import torch

from executor.lora import Dropout, MaskedPiece, Slot, lora_linear

CASES = {  # (start, end, rank) of each slot of 40 tokens
    "one after another": ((0, 8, 4), (8, 24, 16), (24, 40, 6)),
    "gaps and a tail": ((3, 8, 4), (16, 24, 10)),
    "one of one token": ((39, 40, 2),),
    "nobody": (),
}


def world(case, dtype, dropout=0.0):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(40, 24), torch.randn(32, 24), torch.randn(32)
    slots = []
    for start, end, rank in CASES[case]:
        a, b = torch.randn(rank, 24), torch.randn(32, rank)
        pieces = (MaskedPiece(7 * start + 1, 0, 1), MaskedPiece(7 * start + 2, 0, end - start - 1))
        mask = Dropout(dropout, range(24), 24, pieces) if dropout else None
        a, b = (each.to(dtype).requires_grad_() for each in (a, b))
        slots.append(Slot(start, end, a, b, 0.5 * rank, mask))
    return x.to(dtype).requires_grad_(), weight.to(dtype), bias.to(dtype), slots


def expected(x, weight, bias, slots):
    y = []
    for token in range(len(x)):
        slot = next((slot for slot in slots if slot.start <= token < slot.end), None)
        row = weight @ x[token] + bias
        if slot is not None:
            inner = x[token] if slot.dropout is None else slot.inputs(x)[token - slot.start]
            row = row + slot.scale * (slot.b @ slot.a) @ inner
        y.append(row)
    return torch.stack(y)


def outcome(y, x, slots):
    torch.manual_seed(1)
    leaves = [x, *(matrix for slot in slots for matrix in (slot.a, slot.b))]
    return [y.detach(), *torch.autograd.grad((y * torch.randn_like(y)).sum(), leaves)]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("kind", "dtype", "error"),
    [
        ("loop", torch.float64, 1e-13),
        ("catmask", torch.float64, 1e-13),
        ("loop", torch.float32, 1e-5),
        ("catmask", torch.float32, 1e-5),
        ("grouped", torch.float32, 1e-5),
    ],
)
def test_every_back_end_gives_the_outputs_and_gradients_of_autograd(kind, dtype, error, case, dropout):
    x, weight, bias, slots = world(case, dtype, dropout)

    found = outcome(lora_linear(x, weight, bias, slots, kind), x, slots)
    right = outcome(expected(x, weight, bias, slots), x, slots)

    assert [float((a - b).abs().max() / b.abs().max()) < error for a, b in zip(found, right, strict=True)] == [
        True
    ] * len(right)


def test_two_runs_of_one_tenant_add_up():
    x, weight, bias, slots = world("one after another", torch.float64)
    first = slots[0]
    again = Slot(30, 33, first.a, first.b, first.scale)
    y = lora_linear(x, weight, bias, [first, again], "loop")

    right = expected(x, weight, bias, [first, again])

    for found, wanted in zip(
        torch.autograd.grad(y.square().sum(), (first.a, first.b)),
        torch.autograd.grad(right.square().sum(), (first.a, first.b)),
        strict=True,
    ):
        assert torch.allclose(found, wanted, rtol=1e-12)


def test_the_frozen_weight_gets_no_gradient_and_a_frozen_input_neither():
    x, weight, bias, slots = world("gaps and a tail", torch.float64)

    lora_linear(x.detach(), weight, bias, slots, "loop").sum().backward()

    assert weight.grad is None
    assert x.grad is None
    assert all(slot.a.grad is not None and slot.b.grad is not None for slot in slots)


def test_bfloat16_activations_give_gradients_in_the_type_of_the_adapter():
    x, weight, bias, slots = world("one after another", torch.float32)
    exact = torch.autograd.grad(lora_linear(x, weight, bias, slots, "loop").sum(), slots[0].a)[0]
    low = (each.bfloat16() for each in (x.detach(), weight, bias))

    lora_linear(*low, slots, "loop").float().sum().backward()

    assert slots[0].a.grad.dtype == torch.float32
    assert float((slots[0].a.grad - exact).abs().max() / exact.abs().max()) < 0.05
