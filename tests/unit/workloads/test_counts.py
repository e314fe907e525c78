"""CSV files of sequence lengths."""

import pytest

from lobra.errors import BadInput
from workloads.counts import read_counts


def test_the_column_tokens_is_read_among_others(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfname,tokens\r\n"a, b",12\r\n\r\nc, 0 \r\nd,7')

    assert read_counts(path, "t").tolist() == [12, 0, 7]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "must have one column 'tokens'"),
        (b"length\n3\n", "must have one column 'tokens'; its first line is 'length'"),
        (b"tokens,tokens\n3,3\n", "must have one column"),
        (b"tokens\n3\n\nx\n", "line 4: tokens is 'x'"),
        (b"tokens\n-1\n", "line 2: tokens is '-1'"),
        (b"tokens\n1.5\n", "line 2: tokens is '1.5'"),
        (b"tokens\n1048577\n", "from 0 to 1048576"),
        (b"a,tokens\n3\n", "line 2: tokens is ''"),
        ("tokens\n²\n".encode(), "line 2"),
        (b"tokens\n\xff\n", "not UTF-8"),
        (b"tokens\n" + b"1" * 200_000 + b"\n", "line 2: not CSV"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, raw, words):
    path = tmp_path / "a.csv"
    path.write_bytes(raw)

    with pytest.raises(BadInput, match=words):
        read_counts(path, "t")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"t: .*no.csv cannot be read \(No such file"):
        read_counts(tmp_path / "no.csv", "t")
