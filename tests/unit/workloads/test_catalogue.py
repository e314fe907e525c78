"""Workloads by name: who is in them, how large a step is, what is refused."""

import pytest

from lobra.errors import BadInput, Infeasible
from lobra.spec import TENANT_NAME
from workloads.catalogue import NAMES, named_workload
from workloads.scaling import apportion


def sizes(workload) -> dict[str, int]:
    return {tenant.name: tenant.batch_size for tenant in workload.tenants}


@pytest.mark.parametrize(
    ("name", "tenants", "total"), [("lobra12", 12, 1696), ("lobra6", 6, 832), ("lobra4", 4, 352), ("real5", 5, 640)]
)
def test_a_step_has_as_many_sequences_as_in_the_paper(name, tenants, total):
    workload = named_workload(name)

    assert len(workload.tenants) == tenants
    assert sum(sizes(workload).values()) == len(workload.batch(0)) == total


def test_the_seven_billion_experiments_have_these_six_tenants():
    assert sizes(named_workload("lobra6")) == {
        "dolly_15k": 256,
        "evol_instruct_110k": 128,
        "xsum": 128,
        "commitpackft": 128,
        "meetingbank": 64,
        "python_code_instructions_18k": 128,
    }


def test_copies_of_a_tenant_have_their_own_names_and_sequences():
    workload = named_workload("lobra4", copies=3)
    lengths = [workload.batch(0).length[workload.batch(0).tenant == tenant].tolist() for tenant in (0, 4, 8)]

    assert sum(sizes(workload).values()) == 3 * 352
    assert [tenant.name for tenant in workload.tenants][::4] == [
        "evol_instruct_110k",
        "evol_instruct_110k-2",
        "evol_instruct_110k-3",
    ]
    assert lengths[0] != lengths[1] != lengths[2]
    assert lengths[0] == named_workload("lobra4").batch(0).length[:128].tolist()


def test_a_context_limit_is_the_smaller_of_its_own_and_the_common_one():
    limits = {tenant.name: tenant.context_limit for tenant in named_workload("lobra12", max_length=4096).tenants}

    assert limits["pubmedqa_artificial"] == 2048
    assert set(limits.values()) == {2048, 4096}


def test_paper_workloads_cut_over_long_sequences_and_say_how_many():
    workload = named_workload("lobra6", batch_size=8320)
    batch = workload.batch(0)

    assert {tenant.overlong for tenant in workload.tenants} == {"truncate"}
    assert batch.truncated[4] == pytest.approx(0.019 * 640, abs=10)
    assert batch.length.max() == 16384


def test_another_batch_size_keeps_the_proportions():
    assert sizes(named_workload("lobra4", batch_size=704)) == {
        "evol_instruct_110k": 256,
        "commitpackft": 256,
        "billsum": 64,
        "pubmedqa_artificial": 128,
    }
    assert list(sizes(named_workload("lobra4", batch_size=5)).values()) == [2, 1, 1, 1]


def test_some_tenants_can_be_picked():
    workload = named_workload("lobra12", tenants=("xsum", "billsum"), batch_size=10)

    assert sizes(workload) == {"xsum": 8, "billsum": 2}


def test_meetingbank_can_have_its_other_law():
    default, lognormal = (
        named_workload("lobra6", meetingbank=kind).lengths(4) for kind in ("alternative", "lognormal")
    )

    assert float(default.lengths @ default.probabilities) == pytest.approx(3429, rel=0.01)
    assert float(lognormal.lengths @ lognormal.probabilities) == pytest.approx(3265, rel=0.01)


def test_every_name_makes_tenants_of_legal_names_with_their_source():
    for name in NAMES:
        for tenant in named_workload(name, copies=2).tenants:
            assert TENANT_NAME.fullmatch(tenant.name)
            assert tenant.source


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "lobra7"}, "no workload 'lobra7'; did you mean lobra"),
        ({"sampler": "iidd"}, "did you mean iid"),
        ({"overlong": "cut"}, "overlong is 'cut'; choose reject, truncate or drop"),
        ({"max_length": 0}, "max_length is 0"),
        ({"batch_size": 3}, "batch_size is 3; it must be a whole number >= 6"),
        ({"batch_size": 100.0}, "batch_size is 100.0"),
        ({"copies": 0}, "copies is 0"),
        ({"meetingbank": "beta"}, "meetingbank is 'beta'"),
        ({"tenants": ("dolly",)}, "no tenant 'dolly'; did you mean dolly_15k"),
        ({"tenants": ("xsum", "xsum")}, "'xsum' stands twice"),
        ({"seed": 1.5}, "seed is 1.5"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, words):
    with pytest.raises(BadInput, match=words):
        named_workload(**({"name": "lobra6"} | arguments))


def test_rejecting_over_long_sequences_is_impossible_where_they_are_certain():
    with pytest.raises(Infeasible, match="tenant 'xsum': a sequence of 20736 tokens is longer than its limit of 16384"):
        named_workload("lobra6", overlong="reject")


def test_shares_sum_to_the_total_with_the_largest_remainders_rounded_up():
    assert apportion([256, 128, 128, 128, 64, 128], 832) == [256, 128, 128, 128, 64, 128]
    assert apportion([1, 1, 1], 4) == [2, 1, 1]
    assert apportion([1000, 1, 1], 10) == [8, 1, 1]
    assert apportion([5, 3, 2], 11) == [6, 3, 2]
    assert apportion([7, 9], 2) == [1, 1]
