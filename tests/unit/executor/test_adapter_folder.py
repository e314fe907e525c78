"""Names of tenants become names of folders, or are refused."""

import pytest

from executor.peft_format import adapter_folder
from lobra.errors import BadInput


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../a",
        "a/b",
        "/a",
        "a\\b",
        "a\0",
        "A",
        "é",
        "con",
        "nul",
        "com1",
        "lpt9.txt",
        "a" * 64,
        "-a",
        "a b",
        "a\n",
    ],
)
def test_an_evil_name_is_no_folder(tmp_path, name):
    with pytest.raises(BadInput, match="cannot be that of a folder"):
        adapter_folder(tmp_path, name)


def test_a_plain_name_is_a_folder_right_below(tmp_path):
    assert adapter_folder(tmp_path, "t1.v2_x-y") == tmp_path / "t1.v2_x-y"
