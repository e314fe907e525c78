"""No sequence sees another, and the test that says so can fail."""

from dataclasses import replace

import pytest
import torch

from distributed.stages import given, stage, stream
from distributed.worlds import CONFIG
from executor.data import Piece, Stream, runs_of
from executor.model import Input
from lobra.plan import MicroBatch
from lobra.spec import SequenceRef

REFS = (SequenceRef(0, 0, 7, 7), SequenceRef(1, 0, 12, 12), SequenceRef(1, 1, 5, 5), SequenceRef(3, 0, 9, 9))
PACKED = MicroBatch((REFS[:2], REFS[2:]), 21)
PADDED = MicroBatch(tuple((ref,) for ref in REFS), 12)
FORMS = pytest.mark.parametrize("microbatch", [PACKED, PADDED], ids=["packed", "padded"])
ATTENTION = pytest.mark.parametrize("attention", ["loop", "mask"])


def cross_gradients(microbatch: MicroBatch, given: Input, attention) -> dict[tuple[int, int], float]:
    """Largest gradient of the outputs of one segment with respect to the inputs of another, for every pair."""
    torch.manual_seed(0)
    x = torch.randn(given.stream.tokens, CONFIG.hidden, dtype=torch.float64, requires_grad=True)
    y = stage(tables=False, attention=attention).forward(x, given)
    found = {}
    weights = torch.randn_like(y)
    for i, (start, length) in enumerate(given.stream.segments):
        (slope,) = torch.autograd.grad((y * weights)[start : start + length].sum(), x, retain_graph=True)
        for j, (other, width) in enumerate(given.stream.segments):
            found[i, j] = float(slope[other : other + width].abs().max())
    return found


@FORMS
@ATTENTION
def test_the_gradient_between_two_sequences_is_exactly_zero(microbatch, attention):
    found = cross_gradients(microbatch, given(microbatch), attention)

    assert {pair for pair, size in found.items() if size != 0} == {(i, i) for i in range(4)}


def test_two_sequences_taken_for_one_do_leak():
    usual = given(PACKED)
    first, second, *others = (piece for run in usual.stream.runs for piece in run.pieces)
    merged = [Piece(second.tenant, 0, first.start, second.end), *others]
    wrong = Stream(usual.stream.ids, usual.stream.labels, usual.stream.positions, runs_of(merged))

    torch.manual_seed(0)
    x = torch.randn(usual.stream.tokens, CONFIG.hidden, dtype=torch.float64, requires_grad=True)
    y = stage(tables=False).forward(x, replace(usual, stream=wrong))
    (slope,) = torch.autograd.grad(y[second.start : second.end].square().sum(), x)

    assert float(slope[first.start : first.end].abs().max()) > 1e-2


@FORMS
def test_a_nan_in_one_sequence_leaves_the_others_bit_equal(microbatch):
    usual, model = given(microbatch), stage(tables=False)
    torch.manual_seed(0)
    x = torch.randn(usual.stream.tokens, CONFIG.hidden, dtype=torch.float64)
    start, length = usual.stream.segments[1]
    sick = x.clone()
    sick[start + 1] = float("nan")

    healthy, poisoned = (model.forward(each.requires_grad_(), usual) for each in (x, sick))
    grown = [torch.autograd.grad(y.sum(), each)[0] for y, each in ((healthy, x), (poisoned, sick))]

    others = torch.ones(usual.stream.tokens, dtype=torch.bool)
    others[start : start + length] = False
    assert torch.equal(healthy[others], poisoned[others])
    assert torch.equal(grown[0][others], grown[1][others])
    assert poisoned[start + 1 : start + length].isnan().all()


def test_a_poisoned_adapter_spoils_its_own_gradient_alone():
    def gradients(poison: bool):
        model = stage()
        if poison:
            with torch.no_grad():
                next(iter(model.bank.adapters[1].pairs.values()))[0].value[0, 0] = float("nan")
        model.forward(None, given(PACKED)).sum().backward()
        return [[m.value.grad for pair in adapter.pairs.values() for m in pair] for adapter in model.bank.adapters]

    healthy, poisoned = gradients(poison=False), gradients(poison=True)

    for tenant in (0, 3):
        assert all(torch.equal(a, b) for a, b in zip(healthy[tenant], poisoned[tenant], strict=True))
    assert any(not grad.isfinite().all() for grad in poisoned[1])
    assert all(grad is None for grad in poisoned[2])


def test_a_changed_token_of_one_sequence_changes_no_loss_of_another():
    model, usual = stage(), given(PACKED)
    flipped = stream(PACKED)
    start, length = flipped.segments[1]
    flipped.ids[start + 2] = (flipped.ids[start + 2] + 1) % CONFIG.vocabulary

    before, after = model.forward(None, usual), model.forward(None, replace(usual, stream=flipped))

    changed = (before != after).nonzero().flatten().tolist()
    assert changed == list(range(start + 2, start + length))


@pytest.mark.parametrize("recompute", [1, 4])
def test_recomputed_layers_give_the_same_bits(recompute):
    def gradients(layers: int):
        model = stage(recompute=layers)
        losses = model.forward(None, given(PACKED))
        losses.sum().backward()
        return [losses, *(m.value.grad for a in model.bank.adapters for p in a.pairs.values() for m in p)]

    for plain, again in zip(gradients(0), gradients(recompute), strict=True):
        assert (plain is None and again is None) or torch.equal(plain, again)
