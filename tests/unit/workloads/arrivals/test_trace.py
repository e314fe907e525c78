"""Traces: every line is taken or rejected with a reason; the sums agree; units and origins are told."""

import pytest

from lobra.errors import BadInput
from lobra.spec import Tenant
from workloads.arrivals.matching import matched
from workloads.arrivals.nouns import Budget, Offer
from workloads.arrivals.trace import read_trace

HEADER = "submit_s,duration_s,gpus,tenant\n"


@pytest.fixture
def trace(tmp_path):
    def write(text: str):
        path = tmp_path / "trace.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_every_line_is_accepted_or_rejected_with_its_reason(trace):
    path = trace(
        HEADER
        + "10,100,2,vc01\n-1,100,1,vc01\n5,nan,1,vc02\n7,abc,1,vc02\n8,0,1,vc02\n9,50,0,vc02\n9,50,1,\n,50,1,vc02\n"
        + "9,50,1\n-2,1,1,vc01\n5,20,,vc03\n"
    )
    jobs, report = read_trace(path, rejected="skip")

    assert [(job.owner, job.at_seconds, job.gpu_seconds) for job in jobs] == [("vc03", 5, 20), ("vc01", 10, 200)]
    assert {reason: (count, line) for reason, count, line in report.rejected} == {
        "submit_s is negative": (2, 3),
        "duration_s is not finite": (1, 4),
        "duration_s is not a number": (1, 5),
        "duration_s is 0": (1, 6),
        "gpus is 0": (1, 7),
        "tenant is empty": (1, 8),
        "submit_s is empty": (1, 9),
        "it has another number of columns than the header": (1, 10),
    }
    assert report.accepted + sum(count for _, count, _ in report.rejected) == report.lines == 11
    assert report.text()[0] == "2 of 11 jobs accepted"


def test_a_rejected_line_refuses_the_trace_unless_told_otherwise(trace):
    with pytest.raises(BadInput, match=r"'trace.csv', line 3: submit_s is negative \(1 lines rejected\)"):
        read_trace(trace(HEADER + "1,1,1,a\n-5,1,1,b\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("submit_s,gpus,tenant\n1,1,a\n", "no column of duration_s, steps, tokens, epochs"),
        ("duration_s,tenant\n1,a\n", "column submit_s is missing"),
        ("submit_s,submit_s,steps,tenant\n1,1,1,a\n", "a column stands twice"),
        (HEADER, "none of its 0 lines can be used"),
        (HEADER + "1,1,1,Ann\n2,1,1,ann\n", "'Ann' and 'ann' differ by case alone"),
        ("submit_s,steps,tenant,job\n1,1,a,x\n2,1,a,x\n", "the name 'x' stands twice"),
    ],
)
def test_a_trace_that_cannot_be_meant_is_refused(trace, text, message):
    with pytest.raises(BadInput, match=message):
        read_trace(trace(text))


def test_microseconds_since_1970_are_shifted_to_zero_and_told(trace):
    jobs, report = read_trace(trace("submit_s,steps,tenant\n1787000000000000,5,a\n1787000000200000,6,b\n"))

    assert [job.at_seconds for job in jobs] == pytest.approx([0, 0.2])
    assert report.notes == (
        "submit_s was taken as microseconds since 1970 and shifted by 1787000000000000 to begin at 0",
    )


def test_an_arrival_far_beyond_the_horizon_is_refused(trace):
    with pytest.raises(BadInput, match="beyond the horizon of 3600 s"):
        read_trace(trace("submit_s,steps,tenant\n0,5,a\n7200,6,b\n"), horizon_seconds=3600)


def test_equal_times_keep_the_order_of_the_file(trace):
    jobs, _ = read_trace(trace("submit_s,steps,tenant\n5,1,c\n0,1,b\n5,1,a\n"))

    assert [job.owner for job in jobs] == ["b", "c", "a"]


OFFERS = (Offer(Tenant("short", 8, 512), Budget(1), weight=2), Offer(Tenant("long", 8, 4096), Budget(1), priority=1))


def test_a_job_in_gpu_seconds_trains_as_many_steps_as_its_offer_does_in_that_time(trace):
    jobs, _ = read_trace(trace("submit_s,duration_s,gpus,tenant,kind,priority\n0,100,4,vc,long,3\n1,1,1,vc,short,\n"))
    made = matched(jobs, OFFERS, {"short": 10.0, "long": 8.0}, seed=0)

    assert [(each.tenant.name, each.owner, each.budget.amount, each.priority) for each in made] == [
        ("long-0000", "vc", 50, 4),
        ("short-0001", "vc", 1, 0),
    ]


def test_leaving_out_a_line_changes_the_kind_of_no_other(trace):
    jobs, _ = read_trace(trace("submit_s,steps,tenant\n" + "".join(f"{at},5,vc\n" for at in range(200))))
    kinds = {at: each.kind for at, each in enumerate(matched(jobs, OFFERS, {}, seed=3))}
    fewer = matched(jobs[1:], OFFERS, {}, seed=3)

    assert [each.kind for each in fewer] == [kinds[at] for at in range(1, 200)]
    assert abs(list(kinds.values()).count("short") / 200 - 2 / 3) < 0.12


def test_a_kind_that_no_offer_has_is_refused(trace):
    jobs, _ = read_trace(trace("submit_s,steps,tenant,kind\n0,5,vc,huge\n"))
    with pytest.raises(BadInput, match="line 2: there is no offer 'huge'; choose one of short, long"):
        matched(jobs, OFFERS, {}, seed=0)


def test_the_philly_slice_is_read_whole(reference_data):
    jobs, report = read_trace(reference_data / "workloads" / "traces" / "philly_200jobs.csv")

    assert (report.lines, report.accepted, report.rejected) == (200, 200, ())
    assert len({job.owner for job in jobs}) == 9
    assert jobs[-1].at_seconds < 86_400
