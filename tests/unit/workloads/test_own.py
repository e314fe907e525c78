"""The user's own tenants, from a YAML file."""

import json

import numpy as np
import pytest

from lobra.errors import BadInput, Infeasible
from lobra.store import StoreWriter
from workloads.own import own_workload, store_folders, text_tenants
from workloads.published import real_task
from workloads.table import tabulate


def write(tmp_path, *tenants: str):
    path = tmp_path / "tenants.yaml"
    path.write_text("tenants:\n" + "".join(f"- {{{tenant}}}\n" for tenant in tenants), encoding="utf-8")
    return path


def counts(tmp_path, *lengths: int, name: str = "a.csv"):
    (tmp_path / name).write_text("tokens\n" + "".join(f"{length}\n" for length in lengths))


BASE = "batch_size: 2, context_limit: 512"
LAW = "family: {family: shifted_lognormal, shift: 50, mu: 6, sigma: 0.7}"


def test_every_kind_of_source_makes_a_tenant(tmp_path):
    counts(tmp_path, 10, 20, 30)
    (tmp_path / "b.jsonl").write_text('{"q": "x", "a": "y"}\n' * 4)
    pytest.importorskip("tokenizers").Tokenizer(
        __import__("tokenizers").models.WordLevel({"u": 0, "</s>": 1}, unk_token="u")
    ).save(str(tmp_path / "t.json"))
    path = write(
        tmp_path,
        f"name: counts, {BASE}, lengths: a.csv",
        f"name: text, {BASE}, text: b.jsonl, tokenizer: t.json, fields: [q, a]",
        f"name: template, {BASE}, text: b.jsonl, tokenizer: t.json, template: 'Q {{q}} A {{a}}'",
        f"name: law, {BASE}, {LAW}, overlong: drop",
        f"name: set, {BASE}, dataset: gsm8k, overlong: truncate",
    )
    workload = own_workload(path)
    (batch,) = workload.batches(1)

    assert [tenant.name for tenant in workload.tenants] == ["counts", "text", "template", "law", "set"]
    assert [source.size for source in workload.sources] == [3, 4, 4, None, None]
    assert batch.labels[batch.tenant == 1].tolist() == [2, 2]  # answer and end token
    expected = tabulate(real_task("gsm8k").lengths, "x").moments().mean
    assert workload.lengths(4).lengths @ workload.lengths(4).probabilities == pytest.approx(expected, rel=1e-3)


def test_a_tenant_trains_as_the_file_says(tmp_path):
    counts(tmp_path, 10, 20, 30)
    adapter = "rank: 8, alpha: 32, rslora: true, target_modules: [q_proj]"
    training = "learning_rate: 2.0e-4, schedule: cosine, clip_norm: 1"
    (tenant,) = own_workload(write(tmp_path, f"name: a, {BASE}, lengths: a.csv, {adapter}, {training}")).tenants

    assert (tenant.rank, tenant.alpha, tenant.rslora, tenant.learning_rate) == (8, 32.0, True, 2e-4)
    assert (tenant.schedule, tenant.clip_norm, tenant.target_modules) == ("cosine", 1.0, ("q_proj",))


def test_empty_sequences_are_left_out_and_counted(tmp_path):
    counts(tmp_path, 10, 0, 30, 0)
    workload = own_workload(write(tmp_path, f"name: a, {BASE}, lengths: a.csv"))

    assert workload.empty == (2,)
    assert sorted(workload.batch(0).length.tolist()) == [10, 30]


def test_over_long_sequences_are_rejected_unless_a_policy_says_otherwise(tmp_path):
    counts(tmp_path, 100, 2048, 2049, 5762)
    tenant = "name: law, batch_size: 4, context_limit: 2048, lengths: a.csv"

    with pytest.raises(Infeasible, match="tenant 'law': a sequence of 5762 tokens is longer than its limit of 2048"):
        own_workload(write(tmp_path, tenant))
    assert own_workload(write(tmp_path, tenant), overlong="truncate").batch(0).truncated == (2,)
    assert own_workload(write(tmp_path, tenant), overlong="drop").batch(0).dropped == (2,)
    assert own_workload(write(tmp_path, tenant + ", overlong: drop"), overlong="truncate").batch(0).dropped == (2,)
    assert own_workload(write(tmp_path, tenant), overlong="truncate", max_length=64).batch(0).length.max() == 64


def test_the_total_batch_can_be_set(tmp_path):
    path = write(
        tmp_path, f"name: a, batch_size: 3, context_limit: 9, {LAW}", f"name: b, batch_size: 1, context_limit: 9, {LAW}"
    )

    assert [tenant.batch_size for tenant in own_workload(path, batch_size=8).tenants] == [6, 2]


def test_seven_sequences_are_too_few_for_a_batch_of_eight(tmp_path):
    counts(tmp_path, *range(1, 8))

    with pytest.raises(BadInput, match="tenant 'few': it has 7 sequences, fewer than its batch size 8"):
        own_workload(write(tmp_path, "name: few, batch_size: 8, context_limit: 512, lengths: a.csv"))


def test_three_distinct_lengths_make_three_bins_of_a_histogram(tmp_path):
    counts(tmp_path, 64, 64, 128, 256)
    workload = own_workload(write(tmp_path, f"name: a, {BASE}, lengths: a.csv"), sampler="stratified")

    assert workload.lengths(0).lengths.tolist() == [64, 128, 256]
    assert workload.lengths(0).probabilities.tolist() == [0.5, 0.25, 0.25]
    assert np.concatenate([batch.length for batch in workload.batches(2)]).tolist().count(64) == 2


@pytest.mark.parametrize(
    ("tenants", "words"),
    [
        ([f"name: a, {BASE}"], "it has no source; give exactly one of lengths, text, store, family, dataset"),
        ([f"name: a, {BASE}, lengths: a.csv, dataset: gsm8k"], "it has lengths and dataset; give exactly one"),
        ([f"name: a, {BASE}, dataset: gsm8k, tokenizer: t"], "'tokenizer' goes with text, but its source is dataset"),
        ([f"name: a, {BASE}, text: b.jsonl, fields: [q]"], "tokenizer is None; it must be the path of a file"),
        ([f"name: a, {BASE}, text: b.jsonl, tokenizer: t"], "give either fields, such as"),
        ([f"name: a, {BASE}, text: b.jsonl, tokenizer: t, fields: q"], "fields is 'q'; it must be a list"),
        ([f"name: a, {BASE}, text: b.jsonl, tokenizer: t, fields: [q.r]"], "tenant 'a': template is '{q.r}'"),
        ([f"name: a, {BASE}, dataset: gsm8k, begin: s"], "'begin' goes with text, but its source is dataset"),
        ([f"name: a, {BASE}, text: b.jsonl, tokenizer: t, fields: [q], end: 2"], "end is 2; it must be the text of a"),
        ([f"name: a, {BASE}, text: b.jsonl, tokenizer: t, template: 3"], "template is 3; it must be text"),
        ([f"name: a, {BASE}, dataset: gsm8"], "no dataset 'gsm8'; did you mean gsm8k"),
        ([f"name: a, {BASE}, dataset: [gsm8k]"], "dataset is .* it must be a name"),
        ([f"name: a, {BASE}, lengths: none.csv"], "none.csv cannot be read"),
        ([f"name: a, {BASE}, lengths: empty.csv"], r"tenant 'a': it has no sequence \(0 empty ones\)"),
        ([f"name: a, {BASE}, lengths: zeros.csv"], r"tenant 'a': it has no sequence \(2 empty ones\)"),
        ([f"name: a, {BASE}, {LAW}", f"name: a, {BASE}, {LAW}"], "two tenants are called 'a' and 'a'"),
        ([f"name: a, {BASE}, {LAW}", f"name: A, {BASE}, {LAW}"], "called 'a' and 'A'; names must differ by more"),
        ([f"name: A, {BASE}, {LAW}"], "a name is 1 to 63 of a-z"),
        ([f"name: ../x, {BASE}, {LAW}"], "a name is 1 to 63 of a-z"),
        ([f"name: 7, {BASE}, {LAW}"], "tenant 1: name is 7; it must be text"),
        ([f"{BASE}, {LAW}"], "tenant 1: the key 'name' is missing"),
        ([f"name: a, context_limit: 9, {LAW}"], "tenant 'a': the key 'batch_size' is missing"),
        ([f"name: a, {BASE}, {LAW}, rnak: 8"], "there is no key 'rnak'; did you mean rank"),
        ([f"name: a, {BASE}, {LAW}, rank: 8.0"], "tenant 'a': rank: expected a whole number, got 8.0"),
        ([f"name: a, {BASE}, {LAW}, rank: true"], "rank: expected a whole number, got True"),
        ([f"name: a, {BASE}, {LAW}, rank: 0"], "tenant 'a': rank is 0"),
        ([f"name: a, {BASE}, {LAW}, alpha: .nan"], "tenant 'a': alpha: expected a finite number, got nan"),
        ([f"name: a, {BASE}, {LAW}, learning_rate: fast"], "learning_rate: expected a finite number, got 'fast'"),
        ([f"name: a, {BASE}, {LAW}, rslora: 1"], "rslora: expected true or false, got 1"),
        ([f"name: a, {BASE}, {LAW}, overlong: cut"], "overlong: expected one of reject, truncate, drop, got 'cut'"),
        ([f"name: a, {BASE}, {LAW}, target_modules: q_proj"], "target_modules: expected a list of names"),
        ([], "tenants is None; it must be a list of at least one tenant"),
        (["a: {b: 1}"], "tenant 1: there is no key 'a'"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path, tenants, words):
    (tmp_path / "empty.csv").write_text("tokens\n")
    (tmp_path / "zeros.csv").write_text("tokens\n0\n0\n")

    with pytest.raises(BadInput, match=words):
        own_workload(write(tmp_path, *tenants))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_length": 0}, "max_length is 0"),
        ({"sampler": "x"}, "sampler is 'x'"),
        ({"overlong": "x"}, "got 'x'"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, arguments, words):
    with pytest.raises(BadInput, match=words):
        own_workload(write(tmp_path, f"name: a, {BASE}, {LAW}"), **arguments)


def test_a_file_without_tenants_is_refused(tmp_path):
    path = tmp_path / "tenants.yaml"
    path.write_text("tenant: []\n")

    with pytest.raises(BadInput, match="there is no key 'tenant'; did you mean tenants"):
        own_workload(path)
    with pytest.raises(BadInput, match="cannot be read"):
        own_workload(tmp_path / "no.yaml")


def test_four_real_texts_make_a_workload(reference_data, tmp_path):
    pytest.importorskip("tokenizers")
    tool = reference_data / "models" / "stories260K" / "tokenizer.json"
    sizes = {"gsm8k": 600, "math_test": 400, "pubmedqa_pqal": 400, "qmsum_topic_segments": 120}
    path = write(
        tmp_path,
        *(
            f"name: {name}, batch_size: 32, context_limit: 4096, overlong: truncate, fields: [text], "
            f'text: {json.dumps(str(reference_data / "text" / name))[:-1]}.jsonl", tokenizer: {json.dumps(str(tool))}'
            for name in sizes
        ),
    )
    workload = own_workload(path)
    batches = list(workload.batches(4))

    assert [source.size for source in workload.sources] == list(sizes.values())
    assert workload.epochs(4)[3] == 128 / 120
    assert all(len(batch) == 128 for batch in batches)
    assert sum(batch.truncated[3] for batch in batches) > 0
    assert sum(batch.truncated[0] for batch in batches) == 0


def test_a_token_store_gives_lengths_labels_and_its_place(tmp_path):
    with StoreWriter(tmp_path / "mine", 50) as store:
        store.append([1, 2, 3, 4], [(2, 4)])
        store.append([1, 2], [(1, 2)])
    path = write(
        tmp_path, "name: a, batch_size: 2, context_limit: 8, store: mine", f"name: b, {BASE}, overlong: drop, {LAW}"
    )
    workload = own_workload(path)
    batch = workload.batch(0)
    mine = batch.tenant == 0

    assert sorted(zip(batch.length[mine].tolist(), batch.labels[mine].tolist(), strict=True)) == [(2, 1), (4, 2)]
    assert store_folders(path) == {"a": tmp_path / "mine", "b": None}
    assert text_tenants(path) == ()


def test_a_store_that_is_none_is_refused_in_the_tenants_name(tmp_path):
    with pytest.raises(BadInput, match=r"tenant 'a': .*it is no token store"):
        own_workload(write(tmp_path, "name: a, batch_size: 2, context_limit: 8, store: mine"))
