"""The page that leads from texts to adapters says what is true: its commands run as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from commands import lobra
from workloads.own import own_workload

tokenizers = pytest.importorskip("tokenizers")

PAGE = (Path(__file__).parents[3] / "docs" / "train-on-your-texts.md").read_text(encoding="utf-8")
RECORDS = re.search(r"## 1\. Texts.*?```\n(.*?)```", PAGE, re.DOTALL)[1].splitlines()
FILES = {"SUPPORT": 0, "NOTES": 1, "TALKS": 2, "MAILS": 0}  # which of the page's records each file is made of
COMMANDS = [
    shlex.split(line.replace("\\\n", " "))[1:]
    for block in re.findall(r"```\n(lobra .*?)```", PAGE, re.DOTALL)
    for line in re.sub(r"\\\n", " ", block).splitlines()
]


@pytest.fixture
def folder(tmp_path):
    """The page's texts, twenty records each, with a tokenizer beside them."""
    (tmp_path / "MODEL").mkdir()
    known = ["<unk>", "</s>", *{word for record in RECORDS for word in re.findall(r"\w+", record)}]
    tool = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(known)}, "<unk>"))
    tool.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tool.save(str(tmp_path / "MODEL" / "tokenizer.json"))
    for name, place in FILES.items():
        (tmp_path / f"{name}.jsonl").write_text(f"{RECORDS[place]}\n" * 20)
    return tmp_path


def test_its_texts_become_stores_and_its_tenants_read_them(folder):
    prepared = [words for words in COMMANDS if words[0] == "prepare"]
    for words in prepared:
        done = lobra(*words, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "sequences   20" in done.stdout
        assert "end         </s>" in done.stdout
    (folder / "tenants.yaml").write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])

    workload = own_workload(folder / "tenants.yaml")

    assert len(prepared) == len(FILES)
    assert [tenant.name for tenant in workload.tenants] == ["support", "notes"]
    assert {len(batch) for batch in workload.batches(2)} == {20}


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_its_commands_compose(folder, verb):
    (words,) = [words for words in COMMANDS if words[0] == verb]

    done = lobra(*words, "--cfg", "job", cwd=folder)

    assert done.returncode == 0, done.stderr
    assert "path: MODEL" in done.stdout


def test_its_plan_is_read(folder):
    (quoted,) = set(re.findall(r"`\"(plans='[^']+')\"`", PAGE))

    done = lobra("run", "backend=torch", "experiment=demo_executor", quoted, "--cfg", "job", cwd=folder)

    assert "2,1/2048x1;1,1/1024x2" in done.stdout, done.stderr
