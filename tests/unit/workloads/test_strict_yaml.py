"""YAML read strictly."""

import pytest

from lobra.errors import BadInput
from workloads.strict_yaml import LARGEST_FILE, mapping, nearest, number, read_yaml


def test_plain_yaml_is_read_with_or_without_a_byte_order_mark():
    assert read_yaml(b"a: [1, x]\n", "f") == read_yaml(b"\xef\xbb\xbfa: [1, x]\r\n", "f") == {"a": [1, "x"]}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"a: &x [1]\nb: *x\n", r"f, line 2: the alias \*x is refused"),
        (b"a: 1\nb: 2\na: 3\n", "f, line 3: the key 'a' stands twice"),
        (b"a:\n- {b: 1, b: 2}\n", "f, line 2: the key 'b' stands twice"),
        (b"a: 1\nb: ${c}\n", r"f, line 2: it holds '\$\{'"),
        (b"a: {<<: {b: 1}}\n", "a key must be a plain word"),
        (b"? [1, 2]\n: 3\n", "a key must be a plain word"),
        (b"a: [1\n", "not YAML"),
        (b"a: 1\n---\nb: 2\n", "not YAML"),
        (b"a: !!python/object/apply:os.system [ls]\n", "not YAML"),
        (b"a: \xff\n", "not UTF-8 text"),
        (b"a: 2024-13-45\n", "a value cannot be read"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[\n" * 60, "nested too deeply"),
        (b"- " * 5_000, "nested too deeply"),
        (b"#" * (LARGEST_FILE + 1), "it has more than 10000000 bytes"),
    ],
)
def test_what_could_surprise_is_refused(raw, words):
    with pytest.raises(BadInput, match=words):
        read_yaml(raw, "f")


def test_a_laughing_document_is_refused_before_it_grows():
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]

    with pytest.raises(BadInput, match="alias"):
        read_yaml("\n".join(lines).encode(), "f")


def test_keys_are_checked_with_the_nearest_name():
    with pytest.raises(BadInput, match="there is no key 'rnak'; did you mean rank"):
        mapping({"rnak": 8}, "t", ("rank", "alpha"))
    with pytest.raises(BadInput, match="the key 'rank' is missing"):
        mapping({}, "t", ("rank",), ("rank",))
    with pytest.raises(BadInput, match="expected keys and values, got 3"):
        mapping(3, "t", ("rank",))


@pytest.mark.parametrize("value", [True, "3", None, float("nan"), float("inf"), [1]])
def test_a_number_is_neither_text_nor_a_truth_value(value):
    with pytest.raises(BadInput, match="expected a finite number"):
        number(value, "x")


def test_a_name_like_no_other_is_answered_with_all():
    assert nearest("zzz", ("b", "a")) == "choose one of a, b"
