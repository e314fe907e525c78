"""Nouns survive a file; what is wrong in a file is named by its path."""

import json

import pytest

from lobra import codec, stream
from lobra.errors import BadInput
from lobra.plan import Certificate, DeploymentPlan, MicroBatch, StepPlan
from lobra.spec import SequenceRef
from lobra.trace import Span, StepReport
from toys import plan

PLAN = plan((1, 1, 6), (2, 1, 1), (8, 1, 1))
STEP = StepPlan(3, ((MicroBatch(((SequenceRef(0, 7, 5, 2),),), 8),), ()), updates=(0,), drain=False)
REPORT = StepReport(0, 1.5, 16, 20.0, 100, 90, (Span(0, 0, 0, "forward", 0.0, 0.5),), losses=(1.0, 2.0))
CERTIFIED = DeploymentPlan(
    PLAN.model, PLAN.cluster, PLAN.tenants, PLAN.replicas, Certificate(2.0, 1.9, "fluid", "HiGHS 1.16", "optimal", 7)
)


@pytest.mark.parametrize("noun", [PLAN, CERTIFIED, STEP, REPORT])
def test_a_noun_written_and_read_is_the_same_noun_and_the_same_bytes(noun: object):
    line = codec.encode(noun)

    assert codec.decode(line) == noun
    assert codec.encode(codec.decode(line)) == line


def broken(**changes: object) -> str:
    envelope = json.loads(codec.encode(PLAN))
    envelope["body"]["replicas"][2]["config"].update(changes)
    return json.dumps(envelope)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (broken(tp="x"), r"\$\.body\.replicas\[2\]\.config\.tp: expected int, got 'x'"),
        (broken(tp=True), r"config\.tp: expected int, got True"),
        (broken(tensor=2), r"config\.tensor: ReplicaConfig has no such field"),
        (broken(tp=0), r"\$\.body\.replicas\[2\]\.config: .*tp is 0"),
        (codec.encode(PLAN).replace('"schema":1', '"schema":2'), r"\$\.schema: expected 1, got 2"),
        (codec.encode(PLAN).replace("DeploymentPlan", "Plan"), r"\$\.kind: expected one of"),
        (codec.encode(PLAN)[:-1], "not JSON"),
        (codec.encode(REPORT).replace("1.5", "NaN"), "NaN"),
        ('{"schema":1,"schema":1}', "stands twice"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ("[]", "expected an object"),
    ],
)
def test_a_wrong_line_is_refused_by_the_path_of_what_is_wrong(line: str, message: str):
    with pytest.raises(BadInput, match=message):
        codec.decode(line)


def test_a_missing_field_is_named():
    envelope = json.loads(codec.encode(STEP))
    del envelope["body"]["work"]

    with pytest.raises(BadInput, match=r"\$\.body\.work: it is missing"):
        codec.decode(json.dumps(envelope))


def test_not_a_number_is_never_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        codec.encode(StepReport(0, float("inf"), 1, 0.0, 0, 0))


def test_a_stream_ends_with_a_line_that_says_so(tmp_path):
    path = tmp_path / "run" / "directives.jsonl"
    with stream.Writer(path) as writer:
        writer.append(PLAN)
        writer.append(STEP)

    assert list(stream.read(path)) == [PLAN, STEP]
    assert path.read_text().endswith("}\nend\n")


def test_a_stream_without_its_end_is_an_unfinished_run(tmp_path):
    path = tmp_path / "trace.jsonl"

    def run_that_breaks() -> None:
        with stream.Writer(path) as writer:
            writer.append(REPORT)
            raise KeyError

    with pytest.raises(KeyError):
        run_that_breaks()

    assert list(stream.read(path, complete=False)) == [REPORT]
    with pytest.raises(BadInput, match="did not finish"):
        list(stream.read(path))


def test_a_broken_line_is_named_by_file_and_number(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(codec.encode(REPORT).encode() + b"\n\xff\n")

    with pytest.raises(BadInput, match=r"trace\.jsonl, line 2"):
        list(stream.read(path))


def test_a_missing_stream_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        list(stream.read(tmp_path / "none.jsonl"))


def test_plans_written_before_certificates_told_of_bubbles_are_still_read():
    body = json.loads(codec.encode(CERTIFIED))
    for late in ("with_bubbles_seconds", "kinds", "undominated", "notice"):
        del body["body"]["certificate"][late]

    assert codec.decode(json.dumps(body)) == CERTIFIED
