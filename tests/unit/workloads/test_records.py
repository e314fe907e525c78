"""JSON lines as people really write them."""

import json

import pytest

from lobra.errors import BadInput
from workloads.records import field_text, read_records


def write(tmp_path, raw: bytes):
    path = tmp_path / "a.jsonl"
    path.write_bytes(raw)
    return path


def test_all_real_records_are_read_whatever_the_line_ends_and_blanks(tmp_path):
    long = json.dumps({"text": "x" * 5_000_000}).encode()
    separator = json.dumps({"text": "a\u2028b\u2029c\u0085d"}, ensure_ascii=False).encode()
    lines = [b'\xef\xbb\xbf{"text": "one"}\r', b"", b"   \t", separator, long, b'{"text": "last"}']
    records = list(read_records(write(tmp_path, b"\n".join(lines)), "t"))

    assert [record.line for record in records] == [1, 4, 5, 6]
    assert records[0].body == {"text": "one"}
    assert records[1].body == {"text": "a\u2028b\u2029c\u0085d"}
    assert len(records[2].body["text"]) == 5_000_000


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (b'{"text": ', "line 7: not JSON: Expecting value at column"),
        (b"[1]", r"line 7: expected an object, got \[1\]"),
        (b'{"text": "\xff"}', "line 7: not UTF-8 text"),
        (b'{"n": ' + b"9" * 5000 + b"}", "line 7: not readable JSON"),
        (b"[" * 100_000, "line 7: not readable JSON: it is nested too deeply"),
    ],
)
def test_a_broken_record_is_named_by_its_physical_line(tmp_path, broken, words):
    good = b'{"text": "a"}\n'
    path = write(tmp_path, good * 2 + b"\n\r\n" + good * 2 + broken + b"\n" + good)

    with pytest.raises(BadInput, match=f"t: .*a.jsonl, {words}"):
        list(read_records(path, "t"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"txet": "a"}', "line 1: there is no field 'text'; did you mean txet"),
        (b'{"text": 3}', "line 1: field 'text' is 3; it must be text"),
        (b'{"text": "a\\udcb2"}', "line 1: field 'text' holds half a character"),
    ],
)
def test_a_wrong_field_is_named(tmp_path, body, words):
    (record,) = read_records(write(tmp_path, body), "t")

    with pytest.raises(BadInput, match=words):
        field_text(record, "text", "t")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"t: .*no.jsonl cannot be read"):
        list(read_records(tmp_path / "no.jsonl", "t"))
