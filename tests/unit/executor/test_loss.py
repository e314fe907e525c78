"""Token losses and the gradient made beside them."""

import pytest
import torch
from torch.nn import functional

from executor.loss import CHUNK, token_losses


@pytest.mark.parametrize("tokens", [8, CHUNK + 16])
def test_losses_and_gradients_are_those_of_cross_entropy(tokens):
    torch.manual_seed(0)
    x = torch.randn(tokens, 6, dtype=torch.float64, requires_grad=True)
    head = torch.randn(11, 6, dtype=torch.float64)
    labels = torch.randint(11, (tokens,))
    labels[::3] = -100
    weights = torch.rand(tokens, dtype=torch.float64)

    losses = token_losses(x, head, labels)

    right = functional.cross_entropy(x @ head.T, labels, reduction="none", ignore_index=-100)
    assert torch.allclose(losses, right, rtol=1e-13)
    found, wanted = (torch.autograd.grad((each * weights).sum(), x)[0] for each in (losses, right))
    assert float((found - wanted).abs().max()) < 1e-14


def test_a_token_without_label_has_no_loss_and_no_gradient_even_where_it_is_not_finite():
    x = torch.randn(8, 6, dtype=torch.float64)
    x[2] = float("nan")
    x.requires_grad_()
    labels = torch.tensor([1, 2, -100, 3, -100, -100, -100, -100])

    losses = token_losses(x, torch.randn(11, 6, dtype=torch.float64), labels)
    losses.sum().backward()

    assert losses[labels == -100].tolist() == [0.0] * 5
    assert x.grad[labels == -100].abs().max() == 0
    assert losses.isfinite().all()


def test_a_uniform_guess_costs_the_logarithm_of_the_vocabulary():
    losses = token_losses(
        torch.zeros(8, 6, dtype=torch.float64), torch.randn(101, 6, dtype=torch.float64), torch.arange(8)
    )

    assert losses.tolist() == pytest.approx([4.61512051684126] * 8, rel=1e-14)  # ln 101
