"""Lengths and labels of a tenant's own text."""

import json

import pytest

from lobra.errors import BadInput
from workloads.text import Template, text_rows

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture
def tokenizer(tmp_path):
    """Words are tokens; the tokenizer puts <s> in front and </s> behind, and asks for padding and truncation."""
    words = {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4}
    tool = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tool.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tool.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tool.enable_padding(length=64)
    tool.enable_truncation(max_length=4)
    path = tmp_path / "tokenizer.json"
    tool.save(str(path))
    return path


def rows(tmp_path, tokenizer, template: str, *records: dict[str, str]):
    path = tmp_path / "text.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return text_rows(path, tokenizer, Template(template), "t")


def test_a_sequence_is_front_prompt_answer_and_end_and_the_last_two_carry_loss(tmp_path, tokenizer):
    found = rows(tmp_path, tokenizer, "{q}\n{a}", {"q": "a b a b a", "a": "b b b"}, {"q": "a", "a": "b"})

    assert found.lengths.tolist() == [1 + 5 + 3 + 1, 1 + 1 + 1 + 1]
    assert found.labels.tolist() == [3 + 1, 1 + 1]


def test_text_of_one_field_carries_loss_throughout(tmp_path, tokenizer):
    found = rows(tmp_path, tokenizer, "{text}", {"text": "a b a"})

    assert (found.lengths.tolist(), found.labels.tolist()) == ([5], [4])


def test_a_templates_words_count_and_the_answer_is_the_last_field_with_what_follows(tmp_path, tokenizer):
    found = rows(tmp_path, tokenizer, "question a {q} answer {a} end", {"q": "b b", "a": "a"})

    assert (found.lengths.tolist(), found.labels.tolist()) == ([1 + 5 + 2 + 1], [2 + 1])


def test_braces_in_a_value_are_not_filled_again(tmp_path, tokenizer):
    template = Template("{q} {a}")
    path = tmp_path / "text.jsonl"
    path.write_text(json.dumps({"q": "{a}", "a": "{q}"}))
    from workloads.records import read_records

    assert [template.fill(record, "t") for record in read_records(path, "t")] == [("{a} ", "{q}")]


def test_empty_texts_are_left_out_and_counted(tmp_path, tokenizer):
    found = rows(tmp_path, tokenizer, "so: {q}\n{a}", {"q": "", "a": ""}, {"q": "a", "a": ""}, {"q": "", "a": "b"})

    assert (found.size, found.empty) == (2, 1)
    assert found.labels.tolist() == [1, 2]  # nothing but the end token to learn; the answer and the end token


def test_no_text_at_all_is_refused(tmp_path, tokenizer):
    with pytest.raises(BadInput, match=r"t: it has no sequence \(1 empty ones\)"):
        rows(tmp_path, tokenizer, "{q}", {"q": ""})


@pytest.mark.parametrize(
    "text", ["", "no field", "{", "{a", "a}", "{}", "{a.b}", "{a[0]}", "{a!r}", "{a:>9}", "{{a}}", "{0}"]
)
def test_a_template_names_plain_fields_in_braces(text):
    with pytest.raises(BadInput, match="it must name at least one field, in braces"):
        Template(text)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"not json"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)

    with pytest.raises(BadInput, match=r"t: .*tokenizer.json is no tokenizer file"):
        rows(tmp_path, path, "{q}", {"q": "a"})


def test_a_tokenizer_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"no.json cannot be read"):
        rows(tmp_path, tmp_path / "no.json", "{q}", {"q": "a"})


def test_without_the_tokenizers_package_the_way_out_is_named(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)

    with pytest.raises(BadInput, match=r"text needs the package 'tokenizers'; install lobra\[text\]"):
        rows(tmp_path, tokenizer, "{q}", {"q": "a"})


@pytest.mark.parametrize("name", ["gsm8k", "math_test", "pubmedqa_pqal", "qmsum_topic_segments"])
def test_real_text_has_as_many_tokens_as_the_tokenizer_says(name, reference_data):
    path = reference_data / "text" / f"{name}.jsonl"
    tool_path = reference_data / "models" / "stories260K" / "tokenizer.json"
    tool = tokenizers.Tokenizer.from_file(str(tool_path))
    found = text_rows(path, tool_path, Template("{text}"), name)
    texts = [json.loads(line)["text"] for line in path.read_text().split("\n") if line]
    expected = [len(tool.encode(text).ids) + 1 for text in texts]  # this file puts nothing in front; one end token

    assert found.lengths.tolist() == expected
    assert found.labels.tolist() == [tokens - 1 for tokens in expected]  # nothing predicts the first
