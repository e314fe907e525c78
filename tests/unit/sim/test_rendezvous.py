"""Shared micro-batches: who meets whom, and what happens when they wait in a circle."""

from typing import Literal

import pytest

from lobra.errors import BadInput
from sim.rendezvous import islands
from sim.simulator import Simulator
from unit.sim.worlds import PerToken, log, pipelines, report, tokens, work


def test_replicas_start_a_shared_microbatch_together() -> None:
    """Replica 1 comes late to what it shares with 2, for it shared with 0 before."""
    first, second = tokens(4, 0, 1), tokens(2, 1, 2)
    played = report(Simulator(PerToken()), pipelines(1, 3), work([first], [first, second], [second, 1]))

    assert log(played.spans) == [
        ("0.0 F0", 0),
        ("1.0 F0", 0),
        ("0.0 B0", 2),
        ("1.0 B0", 2),
        ("1.0 F1", 6),
        ("2.0 F0", 6),
        ("1.0 B1", 7),
        ("2.0 B0", 7),
        ("2.0 F1", 9),
        ("2.0 B1", 10),
    ]


def test_members_meet_on_every_stage_in_both_directions() -> None:
    """Replica 0 has a micro-batch of its own behind the shared one, which keeps its stage 0 busy when 1 is ready."""
    shared = tokens(2, 0, 1)
    played = report(Simulator(PerToken(forward=1.0, backward=1.0)), pipelines(2, 2), work([shared, 9], [shared]))
    starts = dict(log(played.spans))

    assert (starts["0.0 F0"], starts["1.0 F0"]) == (0, 0)
    assert (starts["0.1 F0"], starts["1.1 F0"]) == (1, 1)
    assert (starts["0.1 B0"], starts["1.1 B0"]) == (2, 2)
    assert (starts["0.0 B0"], starts["1.0 B0"]) == (10, 10)  # not 3: replica 0 is at its own forward from 1 to 10


def test_a_shared_microbatch_counts_its_tokens_once_and_its_seconds_at_every_member() -> None:
    shared = tokens(6, 0, 1, 2)
    played = report(Simulator(PerToken()), pipelines(1, 3), work([shared, 1], [shared], [shared]))

    assert played.tokens == played.useful_tokens == 7
    assert played.busy_gpu_seconds == 3 * (2 + 4) + 3


@pytest.mark.parametrize("fidelity", ["pipeline", "closed"])
def test_shared_microbatches_in_a_circle_are_reported_and_do_not_hang(fidelity: Literal["pipeline", "closed"]) -> None:
    a, b, c = tokens(1, 0, 1), tokens(1, 1, 2), tokens(1, 0, 2)

    with pytest.raises(BadInput, match=r"^step 7: the schedule stalls: replica 0 waits .* with replicas \(0, 1\)") as e:
        report(Simulator(PerToken(), fidelity), pipelines(1, 3), work([a, c], [b, a], [c, b], step=7))

    assert "\n" not in str(e.value)
    assert "give a shared micro-batch the same position on all its members" in str(e.value)


def test_the_report_of_a_stall_names_all_who_wait() -> None:
    a, b, c = tokens(1, 0, 1), tokens(1, 1, 2), tokens(1, 0, 2)

    with pytest.raises(BadInput) as error:
        report(Simulator(PerToken()), pipelines(1, 3), work([a, c], [b, a], [c, b]))

    assert str(error.value) == (
        "step 0: the schedule stalls: "
        "replica 0 waits on stage 0 to start the forward of its micro-batch 0 with replicas (0, 1); "
        "replica 1 waits on stage 0 to start the forward of its micro-batch 0 with replicas (1, 2); "
        "replica 2 waits on stage 0 to start the forward of its micro-batch 0 with replicas (0, 2); "
        "give a shared micro-batch the same position on all its members"
    )


def test_overlapping_groups_may_stall_in_a_pipeline_though_all_order_them_alike() -> None:
    """On stage 0 replica 0 does a, b, then a's backward; replica 1 has c and d between, does a's backward before b."""
    a, b, c, d = tokens(1, 0, 1), tokens(2, 0, 1), tokens(3, 1, 2), tokens(4, 1, 2)
    step = work([a, b], [a, c, d, b], [c, d])

    assert report(Simulator(PerToken()), pipelines(1, 3), step).seconds > 0
    with pytest.raises(BadInput, match="give a shared micro-batch the same position on all its members"):
        report(Simulator(PerToken()), pipelines(2, 3), step)


def test_a_partner_who_never_comes_is_a_stall_even_where_plans_are_not_checked() -> None:
    shared = tokens(1, 0, 1)

    with pytest.raises(BadInput, match="stalls"):
        report(Simulator(PerToken(), check=False), pipelines(1, 2), work([shared], []))


def test_replicas_that_share_nothing_are_islands_of_one() -> None:
    assert islands(work([1], [], [2, 3]).work) == [[0], [1], [2]]


def test_replicas_that_share_through_others_are_one_island() -> None:
    a, b = tokens(1, 4, 2), tokens(1, 0, 4)

    assert islands(work([b], [1], [a], [], [a, b]).work) == [[0, 2, 4], [1], [3]]
