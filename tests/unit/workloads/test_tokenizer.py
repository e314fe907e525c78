"""Which tokens begin and end a training sequence."""

import json

import pytest

from lobra.errors import BadInput
from workloads.tokenizer import open_tokenizer

tokenizers = pytest.importorskip("tokenizers")


def save(folder, *specials, single=None, **beside):
    """A tokenizer of words, with special tokens and perhaps a template around a text, and files beside it."""
    words = ["<unk>", *specials, "a", "b"]
    vocabulary = {word: number for number, word in enumerate(words)}
    tool = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tool.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tool.add_special_tokens(list(specials))
    if single:
        pairs = [(special, vocabulary[special]) for special in specials if special in single]
        tool.post_processor = tokenizers.processors.TemplateProcessing(single=single, special_tokens=pairs)
    tool.enable_padding(length=64)
    tool.enable_truncation(max_length=4)
    tool.save(str(folder / "tokenizer.json"))
    for name, body in beside.items():
        (folder / f"{name}.json").write_text(json.dumps(body))
    return folder / "tokenizer.json"


def ends(path, **named):
    tool = open_tokenizer(path, "t", **named)
    return tool.begin, tool.end


def test_what_the_tokenizer_puts_around_a_text_begins_and_ends_a_sequence(tmp_path):
    path = save(tmp_path, "<s>", "<e>", single="<s> $A <e>")

    assert ends(path) == ((1,), 2)
    assert open_tokenizer(path, "t").vocabulary == 5


def test_neither_padding_nor_truncation_of_the_file_is_applied(tmp_path):
    path = save(tmp_path, "<s>", "</s>", single="<s> $A </s>")

    assert open_tokenizer(path, "t").encode(["a b a b a b", "", "b"]) == [[3, 4, 3, 4, 3, 4], [], [4]]


def test_the_configuration_beside_it_names_the_end(tmp_path):
    both = {"tokenizer_config": {"eos_token": {"content": "<x>"}}, "config": {"eos_token_id": 1}}

    assert ends(save(tmp_path, "</s>", "<x>", **both)) == ((), 2)
    (tmp_path / "tokenizer_config.json").unlink()
    assert ends(tmp_path / "tokenizer.json") == ((), 1)


def test_a_begin_token_is_added_where_the_configuration_says_so_and_never_twice(tmp_path):
    wants = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}

    assert ends(save(tmp_path, "<s>", "</s>", tokenizer_config=wants)) == ((1,), 2)
    assert ends(save(tmp_path, "<s>", "</s>", single="<s> $A", tokenizer_config=wants)) == ((1,), 2)
    assert ends(save(tmp_path, "<s>", "</s>", tokenizer_config=wants | {"add_bos_token": False})) == ((), 2)


def test_named_tokens_win_and_an_empty_begin_means_none(tmp_path):
    path = save(tmp_path, "<s>", "</s>", "<x>", single="<s> $A </s>")

    assert ends(path, begin="<x>", end="<s>") == ((3,), 1)
    assert ends(path, begin="") == ((), 2)


def test_a_usual_end_token_is_taken_only_if_there_is_one(tmp_path):
    assert ends(save(tmp_path, "<s>", "<|endoftext|>")) == ((), 2)
    with pytest.raises(BadInput, match=r"it knows <\|endoftext\|>, <\|im_end\|>"):
        ends(save(tmp_path, "<|im_end|>", "<|endoftext|>"))
    with pytest.raises(BadInput, match=r"it knows none of the usual ones.*name it as `end`"):
        ends(save(tmp_path, "<s>"))


@pytest.mark.parametrize("named", [{"begin": "<z>"}, {"end": "<z>"}])
def test_a_named_token_must_exist(tmp_path, named):
    with pytest.raises(BadInput, match=r"t: (begin|end) is '<z>', which is no token"):
        ends(save(tmp_path, "</s>"), **named)


def test_a_broken_file_beside_it_is_refused(tmp_path):
    path = save(tmp_path, "</s>")
    (tmp_path / "tokenizer_config.json").write_text("{")

    with pytest.raises(BadInput, match=r"tokenizer_config.json: not JSON.*mend the file"):
        ends(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"not json"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)

    with pytest.raises(BadInput, match=r"t: .*tokenizer.json is no tokenizer file"):
        ends(tmp_path / "tokenizer.json")


def test_a_tokenizer_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"no.json cannot be read"):
        ends(tmp_path / "no.json")


def test_without_the_tokenizers_package_the_way_out_is_named(tmp_path, monkeypatch):
    path = save(tmp_path, "</s>")
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)

    with pytest.raises(BadInput, match=r"text needs the package 'tokenizers'; install lobra\[text]"):
        ends(path)
