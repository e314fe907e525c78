"""Reports from other projects about tokens, labels and text files, turned into tests."""

import json

import pytest

from executor.data import IGNORED, build
from executor.tokens import StoredTokens
from lobra.errors import BadInput
from lobra.plan import MicroBatch
from lobra.spec import SequenceRef
from lobra.store import StoreWriter, read_store
from workloads.prepare import prepare
from workloads.text import Template

tokenizers = pytest.importorskip("tokenizers")

WORDS = {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "c": 5}


@pytest.fixture
def tokenizer(tmp_path):
    """Words are tokens; the tokenizer puts <s> in front."""
    tool = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="<unk>"))
    tool.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tool.add_special_tokens(["<s>", "</s>"])
    tool.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tool.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def prepared(tmp_path, tokenizer, content, template="{q} {a}", **more):
    """A store of these bytes, or of one record."""
    text = tmp_path / "text.jsonl"
    text.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    prepare(text, tokenizer, Template(template), tmp_path / "store", **more)
    return read_store(tmp_path / "store")


def learned(store, index=0):
    """Ids of a sequence, and what each of its tokens has to predict."""
    length, labels = int(store.lengths[index]), int(store.labels[index])
    ids, targets = StoredTokens({"t": store}).tokens("t", index, length, labels)
    return ids.tolist(), targets.tolist()


def test_a_misspelt_tenant_is_named_beside_those_that_exist(tmp_path):
    """huggingface/peft PR 2090: a misspelt adapter in a mixed batch gave the base model's output."""
    for name in ("a", "b"):
        with StoreWriter(tmp_path / name, 10) as store:
            store.append([1, 2], [(1, 2)])
    source = StoredTokens({name: read_store(tmp_path / name) for name in ("a", "b")})

    with pytest.raises(BadInput, match="no token store for tenant 'bb'; there are stores for: a, b"):
        source.tokens("bb", 0, 2, 1)


def test_the_first_answer_token_is_learned_and_the_prompt_is_not(tmp_path, tokenizer):
    """pytorch/torchtitan PR 2755, areal-project/AReaL PR 1427: the mask was shifted by one."""
    ids, targets = learned(prepared(tmp_path, tokenizer, {"q": "a b", "a": "c"}))

    assert ids == [1, 3, 4, 5, 2]  # prompt of 3 with its <s>, answer of 2 with its end
    assert targets[:4] == [IGNORED, IGNORED, 5, 2]  # 4 inputs: 2 masked, 2 supervised
    assert targets[4] == IGNORED


def test_a_merge_over_the_border_of_prompt_and_answer_cannot_happen(tmp_path):
    """hpcaitech/ColossalAI issue 4490: the merged token moved the mask."""
    vocabulary = {"o": 0, "w": 1, "ow": 2, "<e>": 3}
    tool = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("o", "w")]))
    path = tmp_path / "tokenizer.json"
    tool.save(str(path))
    store = prepared(tmp_path, path, {"q": "ow", "p": "o", "a": "ww"}, "{q}{p}{a}", end="<e>")

    assert tool.encode("owoww").ids == [2, 2, 1]  # the border lies inside the second token
    ids, targets = learned(store)
    assert ids[:2] == tool.encode("owo").ids == [2, 0]  # the prompt alone is a prefix
    assert (ids[2:], targets) == ([1, 1, 3], [IGNORED, 1, 1, 3, IGNORED])


def test_a_padding_id_equal_to_the_end_does_not_mask_the_end(tmp_path):
    """huggingface/trl issue 1623, meta-pytorch/torchtune issue 949: end tokens were masked by their id."""
    with StoreWriter(tmp_path / "store", 10) as store:
        store.append([1, 5, 6, 2], [(1, 4)])
    source = StoredTokens({"t": read_store(tmp_path / "store")})
    stream = build(MicroBatch(((SequenceRef(0, 0, 4, 3),),), 6), 1, ["t"], source, 10)

    assert stream.labels[:3].tolist() == [5, 6, 2]
    assert set(stream.labels[3:].tolist()) == {IGNORED}


def test_a_begin_token_of_template_and_tokenizer_stands_once(tmp_path, tokenizer):
    """OpenRLHF/OpenRLHF issue 393, ml-explore/mlx-examples issue 1095: it stood twice."""
    ids, _ = learned(prepared(tmp_path, tokenizer, {"q": "a", "a": "b"}, "<s> {q} {a}"))

    assert ids == [1, 3, 4, 2]


@pytest.mark.parametrize("template", ["{q} {a}", "{q} {a} </s>"])
def test_every_sequence_ends_in_one_end_token_that_is_learned(tmp_path, tokenizer, template):
    """mlabonne/llm-course issue 33: a model without an end token never stops."""
    ids, targets = learned(prepared(tmp_path, tokenizer, {"q": "a", "a": "b"}, template))

    assert (ids.count(2), ids[-1], targets[-2]) == (1, 2, 2)


def test_every_answer_of_a_conversation_is_learned(tmp_path, tokenizer):
    """NVIDIA-NeMo/Speech PR 16284: only the last answer was."""
    talk = {"turns": [{"q": "a a a", "a": "b c"}, {"q": "a", "a": "c b c"}]}
    ids, targets = learned(prepared(tmp_path, tokenizer, talk, turns="turns"))

    assert [target for target in targets if target != IGNORED] == [4, 5, 2, 5, 4, 5, 2]
    assert [ids[i + 1] for i, target in enumerate(targets) if target != IGNORED] == [4, 5, 2, 5, 4, 5, 2]


def line(q, a="b"):
    return json.dumps({"q": q, "a": a}, ensure_ascii=False).encode()


def test_a_file_as_people_write_it_keeps_all_its_records(tmp_path, tokenizer):
    """wbolster/jsonlines issue 68, microsoft/PyRIT PR 1479, huggingface/datasets issue 2181 and others."""
    huge = json.dumps({"q": "a a a a", "a": "b", "page": "x" * 5_000_000}).encode()
    lines = [b"\xef\xbb\xbf" + line("a"), b"", b"   ", line("a a") + b"\r", line("a\u2028a a"), huge, line("c")]
    store = prepared(tmp_path, tokenizer, b"\n".join(lines))

    assert (store.lengths - 3).tolist() == [1, 2, 3, 4, 1]


def test_a_broken_line_is_named_by_where_it_stands_in_the_file(tmp_path, tokenizer):
    """daaain/claude-code-log issue 139: the error said line 1 for every line."""
    lines = [b"\xef\xbb\xbf" + line("a"), b"", b"   ", line("a a") + b"\r", line("a\u2028a a"), line("c"), b'{"q": "a"']

    with pytest.raises(BadInput, match=r"text\.jsonl, line 7: not JSON"):
        prepared(tmp_path, tokenizer, b"\n".join(lines))
    assert not (tmp_path / "store").exists()


def test_half_a_character_is_refused_where_it_is_read(tmp_path, tokenizer):
    """anthropics/anthropic-sdk-python PR 1778: a lone surrogate crashed a later write."""
    with pytest.raises(BadInput, match=r"line 2: field 'q' holds half a character"):
        prepared(tmp_path, tokenizer, line("a") + b'\n{"q": "a \\udcb2", "a": "b"}\n')
