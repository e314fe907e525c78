"""Text becomes sequences of which answers and end tokens carry loss."""

import hashlib
import json

import pytest

from lobra.errors import BadInput
from lobra.store import read_store
from workloads.prepare import Prepared, prepare
from workloads.text import Template, text_rows

tokenizers = pytest.importorskip("tokenizers")

S, E, A, B = 1, 2, 3, 4  # <s>, </s>, a, b


@pytest.fixture
def tokenizer(tmp_path):
    """Words are tokens; the tokenizer puts <s> in front and </s> behind."""
    tool = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<unk>": 0, "<s>": S, "</s>": E, "a": A, "b": B}, unk_token="<unk>")
    )
    tool.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tool.add_special_tokens(["<s>", "</s>"])
    tool.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", S), ("</s>", E)]
    )
    tool.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def made(tmp_path, tokenizer, template, *records, **more):
    """What prepare counts, and the sequences of its store as lists."""
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps(record) + "\n" for record in records))
    counts = prepare(text, tokenizer, Template(template), tmp_path / "store", **more)
    store = read_store(tmp_path / "store")
    found = [store.sequence(i) for i in range(len(store))]
    return counts, [(ids.tolist(), [tuple(span) for span in spans.tolist()]) for ids, spans in found]


def test_answer_and_end_token_carry_loss_and_the_prompt_does_not(tmp_path, tokenizer):
    counts, found = made(tmp_path, tokenizer, "{q}\n{a}", {"q": "a b a", "a": "b b"}, {"q": "a", "a": ""})

    assert found == [([S, A, B, A, B, B, E], [(4, 7)]), ([S, A, E], [(2, 3)])]
    assert counts == Prepared(sequences=2, tokens=10, labels=4, longest=7)


def test_text_of_one_field_carries_loss_behind_its_first_token(tmp_path, tokenizer):
    _, found = made(tmp_path, tokenizer, "{text}", {"text": "a b"})
    assert found == [([S, A, B, E], [(1, 4)])]


def test_without_a_begin_token_the_first_token_of_a_text_is_not_predicted(tmp_path, tokenizer):
    _, found = made(tmp_path, tokenizer, "{text}", {"text": "a b"}, begin="")
    assert found == [([A, B, E], [(1, 3)])]


def test_begin_and_end_tokens_that_the_template_brings_are_not_put_twice(tmp_path, tokenizer):
    _, found = made(tmp_path, tokenizer, "<s> {q} {a} </s>", {"q": "a", "a": "b"})
    assert found == [([S, A, B, E], [(2, 4)])]


def test_a_conversation_is_one_sequence_in_which_every_answer_carries_loss(tmp_path, tokenizer):
    talk = [{"q": "a a", "a": "b b"}, {"q": "", "a": ""}, {"q": "a", "a": "b b b"}]
    counts, found = made(tmp_path, tokenizer, "{q} {a}", {"turns": talk}, turns="turns")

    assert found == [([S, A, A, B, B, E, A, B, B, B, E], [(3, 6), (7, 11)])]
    assert (counts.sequences, counts.labels) == (1, 3 + 4)


def test_longer_sequences_are_cut_at_the_limit_and_counted(tmp_path, tokenizer):
    records = ({"q": "a", "a": "b"}, {"q": "a a", "a": "b b"}, {"q": "a a a a", "a": "b"})
    counts, found = made(tmp_path, tokenizer, "{q} {a}", *records, limit=4)

    assert found == [([S, A, B, E], [(2, 4)]), ([S, A, A, B], [(3, 4)])]
    assert (counts.sequences, counts.cut, counts.unlabelled) == (2, 2, 1)


def test_empty_records_are_left_out_and_counted(tmp_path, tokenizer):
    records = ({"q": "", "a": ""}, {"q": "a", "a": "b"}, {"q": " ", "a": " "})
    counts, found = made(tmp_path, tokenizer, "{q} {a}", *records)

    assert (counts.sequences, counts.empty, len(found)) == (1, 2, 1)


def test_a_file_without_a_sequence_is_refused_and_leaves_nothing(tmp_path, tokenizer):
    with pytest.raises(BadInput, match=r"text.jsonl has no sequence to train \(1 empty, 0 unlabelled\)"):
        made(tmp_path, tokenizer, "{q}", {"q": ""})

    assert not (tmp_path / "store").exists()


def test_the_same_text_gives_the_same_bytes_and_the_manifest_says_from_what(tmp_path, tokenizer):
    text = tmp_path / "text.jsonl"
    text.write_text('{"q": "a", "a": "b"}\n')
    for name in ("one", "two"):
        prepare(text, tokenizer, Template("{q} {a}"), tmp_path / name)

    one, two = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two"))
    origin = json.loads(one["manifest.json"])["origin"]
    assert one == two
    assert origin["text"] == {"file": "text.jsonl", "sha256": hashlib.sha256(text.read_bytes()).hexdigest()}
    assert origin["tokenizer"]["sha256"] == hashlib.sha256(tokenizer.read_bytes()).hexdigest()
    assert (origin["template"], origin["begin"], origin["end"], origin["empty"]) == ("{q} {a}", [S], E, 0)


def test_an_existing_folder_is_refused_before_the_work(tmp_path, tokenizer):
    (tmp_path / "store").mkdir()

    with pytest.raises(BadInput, match="it exists already"):
        prepare(tmp_path / "nowhere.jsonl", tmp_path / "nowhere.json", Template("{q}"), tmp_path / "store")


@pytest.mark.parametrize(
    ("record", "more", "named"),
    [
        ({"q": "a"}, {}, "line 1: there is no field 'a'"),
        ({"q": "a", "a": 1}, {}, "line 1: field 'a' is 1; it must be text"),
        ({"q": "a", "a": "b"}, {"turns": "talk"}, "line 1: there is no field 'talk'"),
        ({"talk": "a"}, {"turns": "talk"}, "field 'talk' is 'a'; it must be a list of objects"),
        ({"talk": ["a"]}, {"turns": "talk"}, "it must be a list of objects"),
        ({"talk": [{"q": "a"}]}, {"turns": "talk"}, "line 1: there is no field 'a'"),
        ({"q": "a", "a": "b"}, {"limit": 0}, "limit is 0"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, tokenizer, record, more, named):
    with pytest.raises(BadInput) as caught:
        made(tmp_path, tokenizer, "{q} {a}", record, **more)

    assert named in str(caught.value)
    assert not (tmp_path / "store").exists()


def test_more_records_than_a_chunk_keep_their_order(tmp_path, tokenizer):
    records = [{"q": "a " * (i % 7 + 1), "a": "b"} for i in range(2345)]
    _, found = made(tmp_path, tokenizer, "{q} {a}", *records)

    assert [len(ids) for ids, _ in found] == [i % 7 + 1 + 3 for i in range(2345)]


@pytest.mark.parametrize("around", [{}, {"begin": ""}, {"begin": "b"}, {"end": "b"}])
@pytest.mark.parametrize("template", ["{q} {a}", "<s> {q} {a} </s>", "{a}"])
def test_a_plan_made_from_the_text_counts_what_the_store_holds(tmp_path, tokenizer, template, around):
    text = tmp_path / "text.jsonl"
    text.write_text('{"q": "a b", "a": "b"}\n{"q": "", "a": ""}\n{"q": "", "a": "b a"}\n{"q": "b a", "a": ""}\n')
    prepare(text, tokenizer, Template(template), tmp_path / "store", **around)
    planned = text_rows(text, tokenizer, Template(template), "t", **around)
    store = read_store(tmp_path / "store")

    assert (store.lengths.tolist(), store.labels.tolist()) == (planned.lengths.tolist(), planned.labels.tolist())


@pytest.mark.parametrize("name", ["gsm8k", "math_test", "pubmedqa_pqal", "qmsum_topic_segments"])
def test_real_text_reads_back_as_the_tokens_of_its_tokenizer(name, tmp_path, reference_data):
    text = reference_data / "text" / f"{name}.jsonl"
    path = reference_data / "models" / "stories260K" / "tokenizer.json"
    counts = prepare(text, path, Template("{text}"), tmp_path / "store", begin="<s>", limit=512)
    tool = tokenizers.Tokenizer.from_file(str(path))
    texts = [json.loads(line)["text"] for line in text.read_text().split("\n") if line]
    store = read_store(tmp_path / "store")

    assert len(store) == len(texts) == counts.sequences
    for i in range(0, len(texts), 17):
        whole = [1, *tool.encode(texts[i]).ids, 2]
        assert store.sequence(i)[0].tolist() == whole[:512]
        assert store.sequence(i)[1].tolist() == [[1, min(512, len(whole))]]
