"""Small JSON files are read strictly."""

import pytest

from lobra.errors import BadInput
from lobra.json_file import LARGEST_FILE, read_object


def test_an_object_is_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"é": [1, null]}', encoding="utf-8")

    assert read_object(path) == {"é": [1, None]}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "not JSON"),
        (b"[1]", "expected an object"),
        (b'{"a": Infinity}', "it holds Infinity"),
        (b'{"a": 1, "a": 1}', "stands twice"),
        (b'{"a": "\xff"}', r"not UTF-8 text \(byte 7\)"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b" " * (LARGEST_FILE + 1), "at most 10000000 are read"),
    ],
)
def test_everything_else_is_refused_with_the_name_of_the_file(tmp_path, content, named):
    path = tmp_path / "a.json"
    path.write_bytes(content)

    with pytest.raises(BadInput, match=f"a.json: .*{named}"):
        read_object(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"b.json: cannot be read \(No such file or directory\)"):
        read_object(tmp_path / "b.json")
