"""The elementwise steps against autograd over the same formula."""

import pytest
import torch
from torch.nn import functional

from executor.pointwise import gated, rotate


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


def gradients(y, *leaves):
    return torch.autograd.grad((y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum(), leaves)


@pytest.mark.parametrize("width", [8, 20], ids=["whole", "strided"])
def test_a_rotation_is_a_complex_product_and_its_gradient_the_turn_back(width):
    x = numbers(6, 3, width)[..., :8].requires_grad_()
    turns = numbers(6, 4)
    phase = torch.polar(torch.ones_like(turns), turns)[:, None]

    y = rotate(x, turns.cos()[:, None], turns.sin()[:, None])

    product = torch.complex(x[..., :4], x[..., 4:]) * phase
    expected = torch.cat((product.real, product.imag), -1)
    assert torch.allclose(y, expected, rtol=0, atol=1e-14)
    assert torch.allclose(gradients(y, x)[0], gradients(expected, x)[0], rtol=0, atol=1e-14)


def test_the_gate_and_its_gradients_are_those_of_autograd():
    gate, up = numbers(5, 7).requires_grad_(), numbers(5, 7, 1)[..., 0].requires_grad_()

    y = gated(gate, up)

    expected = gate / (1 + (-gate).exp()) * up
    assert torch.allclose(y, expected, rtol=1e-14)
    for found, right in zip(gradients(y, gate, up), gradients(expected, gate, up), strict=True):
        assert torch.allclose(found, right, rtol=1e-12, atol=1e-15)


def test_neither_changes_its_input():
    x, turns = numbers(4, 2, 6), numbers(4, 1, 3)
    before = x.clone()

    rotate(x, turns.cos(), turns.sin())
    gated(x, turns.repeat(1, 2, 2))

    assert torch.equal(x, before)


def test_half_precision_stays_close_to_double():
    x, turns = numbers(4, 2, 6), numbers(4, 1, 3)

    low = rotate(x.bfloat16(), turns.cos().bfloat16(), turns.sin().bfloat16())
    gate = gated(x.bfloat16(), x.bfloat16())

    assert low.dtype == gate.dtype == torch.bfloat16
    assert torch.allclose(low.double(), rotate(x, turns.cos(), turns.sin()), atol=0.05)
    assert torch.allclose(gate.double(), functional.silu(x) * x, rtol=0.03, atol=0.01)
