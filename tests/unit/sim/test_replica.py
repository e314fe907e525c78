"""Stages of one replica: who does what, when."""

import pytest
from simpy import Environment

from lobra.trace import Span
from sim.island import play_stages
from sim.prices import price
from sim.replica import stages_of
from sim.simulator import Simulator
from unit.sim.worlds import PerToken, log, overlaps, pipelines, report, seconds, work

EVEN = PerToken(forward=1.0, backward=1.0)


def test_one_stage_does_forward_and_backward_of_each_microbatch_in_turn() -> None:
    played = report(Simulator(PerToken()), pipelines(1), work([2, 1]))

    assert log(played.spans) == [("0.0 F0", 0), ("0.0 B0", 2), ("0.0 F1", 6), ("0.0 B1", 7)]
    assert played.seconds == 9


def test_two_stages_alternate_forward_and_backward() -> None:
    played = report(Simulator(EVEN), pipelines(2), work([1, 1, 1]))

    assert log(played.spans) == [
        ("0.0 F0", 0),
        ("0.0 F1", 1),
        ("0.1 F0", 1),
        ("0.1 B0", 2),
        ("0.0 B0", 3),
        ("0.1 F1", 3),
        ("0.0 F2", 4),
        ("0.1 B1", 4),
        ("0.0 B1", 5),
        ("0.1 F2", 5),
        ("0.1 B2", 6),
        ("0.0 B2", 7),
    ]


def test_a_transfer_delays_the_receiver_and_never_the_sender() -> None:
    played = report(Simulator(PerToken(forward=1.0, backward=1.0, transfer=0.5)), pipelines(2), work([1, 1]))

    assert log(played.spans, "forward", "backward", "transfer") == [
        ("0.0 F0", 0),
        ("0.0 F1", 1),
        ("0.1 T0", 1),
        ("0.1 F0", 1.5),
        ("0.1 T1", 2),
        ("0.1 B0", 2.5),
        ("0.0 T0", 3.5),
        ("0.1 F1", 3.5),
        ("0.0 B0", 4),
        ("0.1 B1", 4.5),
        ("0.0 T1", 5.5),
        ("0.0 B1", 6),
    ]
    assert all(span.end - span.start == 0.5 for span in played.spans if span.kind == "transfer")


def test_a_late_message_and_an_early_message_reach_the_same_stage() -> None:
    """Stage 1 awaits the first message; the second one lies in its mailbox long before it is read."""
    played = report(Simulator(PerToken(forward=1.0, backward=4.0)), pipelines(2), work([3, 1]))

    assert [entry for entry in log(played.spans) if entry[0].startswith("0.1")] == [
        ("0.1 F0", 3),
        ("0.1 B0", 6),
        ("0.1 F1", 18),
        ("0.1 B1", 19),
    ]


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 5), (2, 2), (3, 8), (4, 2), (4, 4), (8, 1), (8, 21)])
def test_equal_microbatches_take_their_number_plus_stages_less_one_rounds(stages: int, microbatches: int) -> None:
    assert (microbatches + stages - 1) * (1 + 2) == seconds(PerToken(), pipelines(stages), work([1] * microbatches))


def test_a_replica_without_work_does_nothing() -> None:
    played = report(Simulator(PerToken(synchronise=1.0)), pipelines(4), work([]))

    assert log(played.spans) == []
    assert played.seconds == 1


def test_operations_without_duration_keep_the_order_of_the_schedule() -> None:
    played = report(Simulator(PerToken(forward=0.0, backward=0.0)), pipelines(2), work([1, 1]))

    assert [
        *("0.0 F0", "0.0 F1", "0.0 B0", "0.0 B1"),
        *("0.1 F0", "0.1 B0", "0.1 F1", "0.1 B1"),
    ] == [who for who, _ in log(played.spans)]


def test_the_order_in_which_stages_are_started_changes_nothing() -> None:
    def play(order: list[int]) -> list[Span]:
        environment = Environment()
        step = work([1, 1, 1, 1])
        stages = stages_of(environment, 0, price(pipelines(4), step, 0, EVEN, None), [None] * 4)
        logs: list[list[Span]] = [[] for _ in stages]
        assert play_stages(environment, [stages[i] for i in order], [logs[i] for i in order], 0.0)
        return [span for part in logs for span in part]

    first = play([0, 1, 2, 3])

    assert len(first) == 32
    assert first == play([3, 2, 1, 0]) == play([2, 0, 3, 1]) == play([1, 3, 0, 2])


def test_no_stage_does_two_operations_at_once() -> None:
    played = report(Simulator(PerToken()), pipelines(4), work([7, 3, 5, 2, 9, 1, 4]))

    assert not overlaps(played.spans)
