"""Fixed plans: read from text, refused by name where they do not hold here."""

import csv

import pytest

import toys
from lobra.errors import BadInput, Infeasible
from lobra.plan import ReplicaConfig
from policies.batching.padded import Padded
from policies.deployment.fixed import Fixed, Wish, parse
from policies.dispatch.uniform import Uniform

WORKLOAD = toys.workload()


def planned(text, *, cluster=None, cost=None, workload=WORKLOAD, model=toys.MODEL, **knobs):
    return Fixed(text, **knobs).plan(workload, model, cluster or toys.cluster(), cost or toys.ToyCost())


def test_a_plan_is_read_from_its_text():
    assert planned("1,1x6;2,1x1;8,1x1").summary() == "<1,1>x6 <2,1>x1 <8,1>x1"


def test_recomputed_layers_and_smaller_budgets_are_read_too():
    assert parse(" 1,1,r32x16; 1,8/1024x2 ;2,4,r4/512x1;1,1,r8,fsdp4/64x8;2,1,fsdp2x2") == (
        Wish(ReplicaConfig(1, 1, 32), None, 16),
        Wish(ReplicaConfig(1, 8), 1024, 2),
        Wish(ReplicaConfig(2, 4, 4), 512, 1),
        Wish(ReplicaConfig(1, 1, 8, 4), 64, 8),
        Wish(ReplicaConfig(2, 1, fsdp=2), None, 2),
    )
    assert planned("1,1,fsdp4x4;4,1x1").summary() == "<1,1,fsdp4>x4 <4,1>x1"
    assert planned("8,1x1;2,2/512x2").summary() == "<2,2>x2 <8,1>x1"
    assert planned("4,1,r8x4").replicas[0].budget == 8192


def test_every_published_plan_is_read(reference_data):
    with (reference_data / "published" / "plans.csv").open() as file:
        rows = list(csv.DictReader(file))

    for row in rows:
        wishes = parse(row["replicas_tp_pp_x_count"])
        assert sum(wish.config.gpus * wish.count for wish in wishes) == int(row["gpus"])
    assert len(rows) >= 12


@pytest.mark.parametrize("text", ["", "8,1", "8x2", "8,1x2;", "<8,1>x2", "8,1x-1", "8,1 x 2", "a,1x1", "8,1x1,2,1x1"])
def test_what_is_no_plan_is_refused_when_it_is_made(text):
    with pytest.raises(BadInput, match="is not of the form tp,pp x count, such as 8,1x2"):
        Fixed(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8,1x0", "asks for 0 replicas"),
        ("8,1/0x1", "has a budget of 0 tokens"),
        ("0,1x1", "tp is 0"),
        ("1,1,fsdp0x1", "fsdp is 0"),
        ("1,1,fsdp4x6", r"shards weights over 4 .* ask for a multiple of 4 replicas, such as 8, not for 6"),
    ],
)
def test_a_plan_of_nothing_is_refused(text, message):
    with pytest.raises(BadInput, match=message):
        Fixed(text)


def test_an_unknown_configuration_is_named_with_those_known():
    with pytest.raises(BadInput, match=r"configuration <3,1> is unknown to the cost model; choose from <1,1> <2,1>"):
        planned("8,1x1;3,1x1")


def test_more_stages_than_layers_are_refused():
    with pytest.raises(BadInput, match=r"pp 16 cannot cut 8 layers"):
        planned("8,1x1;1,16x1", cost=toys.ToyCost(shapes=((8, 1), (1, 16))))


def test_more_recomputed_layers_than_a_stage_has_are_refused():
    with pytest.raises(BadInput, match=r"recomputes 5 layers of a stage, but none has over 4"):
        planned("2,2,r5x1")


def test_more_gpus_than_there_are_are_refused_with_what_fits():
    with pytest.raises(Infeasible, match=r"need 25 GPUs, but cluster 'toy' has 16; at most 8,1x2 would fit"):
        planned("8,1x3;1,1x1")


def test_a_budget_beyond_what_fits_is_refused():
    with pytest.raises(Infeasible, match=r"a budget of 9000 tokens on <8,1>, but 8192 fit"):
        planned("8,1/9000x1")


def test_a_replica_without_room_for_the_weights_is_refused():
    with pytest.raises(Infeasible, match=r"model 'toy' does not fit on a replica <8,1>"):
        planned("8,1x1", cost=toys.ToyCost(tokens_per_gpu=0))


def test_a_plan_that_does_not_hold_the_longest_sequence_is_refused():
    with pytest.raises(Infeasible, match=r"tenant 'long' .* 4096 tokens .* the longest that fits is 2048, on <2,1>"):
        planned("1,1x6;2,1x5")


def test_replicas_that_share_may_hold_it_together():
    assert planned("1,1x4", shared=True).summary() == "<1,1>x4"
    with pytest.raises(Infeasible, match=r"is 3072, on <1,1> x 3 together"):
        planned("1,1x3", shared=True)


def test_with_batching_and_dispatch_it_is_judged_and_bounded():
    certificate = planned("1,1x4;4,1x3", batching=Padded(), dispatch=Uniform(), seed=5).certificate

    assert 0 < certificate.bound_seconds <= certificate.expected_seconds
    assert (certificate.status, certificate.seed) == ("fixed", 5)
    assert planned("1,1x4;4,1x3").certificate is None
