"""What a run directory says, and the name that follows from a configuration."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.rundir import digest, git_commit, locked, read_json, write_run
from lobra.errors import BadInput

CONFIG = {"seed": 0, "steps": 20, "cluster": {"nodes": 2}, "run_dir": "OUT", "fail_fast": False}


def test_a_name_follows_from_the_configuration_whatever_the_order_of_its_keys():
    turned = dict(reversed(CONFIG.items()))
    assert digest("compare", CONFIG) == digest("compare", turned)
    assert len(digest("compare", CONFIG)) == 16


def test_where_a_result_is_put_is_no_part_of_its_name():
    assert digest("compare", CONFIG) == digest("compare", CONFIG | {"run_dir": None, "fail_fast": True})


@pytest.mark.parametrize("change", [{"seed": 1}, {"steps": 21}, {"cluster": {"nodes": 4}}, {"extra": None}])
def test_any_other_change_gives_another_name(change):
    assert digest("compare", CONFIG) != digest("compare", CONFIG | change)


def test_the_verb_and_the_data_are_part_of_the_name():
    assert digest("compare", CONFIG) != digest("run", CONFIG)
    assert digest("compare", CONFIG) != digest("compare", CONFIG, "other data")


@given(st.dictionaries(st.text(max_size=4), st.integers() | st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=30, deadline=None)
def test_two_configurations_share_a_name_only_if_they_are_equal(config):
    assert digest("run", config) == digest("run", json.loads(json.dumps(config)))
    assert digest("run", config) != digest("run", config | {"one more": 1})


def test_run_json_holds_what_is_needed_to_repeat_the_run(tmp_path):
    write_run(tmp_path, "compare", "0123", CONFIG)
    described = read_json(tmp_path / "run.json")
    assert described["config"] == CONFIG
    assert described["seed"] == 0
    assert described["config_hash"] == "0123"
    assert described["versions"]["hydra-core"].startswith("1.3.")
    commit = git_commit()
    assert commit is None or (len(commit) == 40 and described["git_commit"] == commit)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ('{"schema": 2}', r"\$\.schema: expected 1, got 2"),
        ('{"schema": NaN}', "not strict JSON: it holds NaN"),
        ('{"schema": 1, "schema": 1}', "the key 'schema' stands twice"),
        ("[]", r"\$\.schema: expected 1, got 'list'"),
        ("\ufeff{}", "not JSON"),
    ],
)
def test_a_corrupt_summary_is_refused_with_file_and_fault(tmp_path, text, said):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(BadInput, match=said) as refusal:
        read_json(tmp_path / "summary.json")
    assert "summary.json" in str(refusal.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "summary.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(BadInput, match="not UTF-8"):
        read_json(tmp_path / "summary.json")


def test_a_directory_that_is_written_to_is_refused_to_a_second_writer(tmp_path):
    with (
        locked(tmp_path, wait=False),
        pytest.raises(BadInput, match="another process writes"),
        locked(tmp_path, wait=False),
    ):
        pass
    with locked(tmp_path, wait=False):
        pass
