"""The command line on real ranks: text to adapters, failure and resumption, a profile and its validation."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import HOME, check_refused, lobra, lobra_process
from lobra import stream
from lobra.files import write_atomically
from lobra.plan import StepPlan

tokenizers = pytest.importorskip("tokenizers")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SMALL = ("backend=torch", "model=demo", "cluster=cpu", "cluster.gpus_per_node=2", "cost=roofline", "plans='1,1/256x2'")


def words(folder: Path) -> Path:
    """A tokenizer whose tokens are words."""
    known = {word: number for number, word in enumerate(("<unk>", "</s>", "what", "is", "two", "and", "four", "six"))}
    tool = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    tool.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tool.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def tenants(folder: Path, *lines: str) -> str:
    (folder / "tenants.yaml").write_text("tenants:\n" + "".join(f"- {{{line}}}\n" for line in lines))
    return f"workload.file={folder / 'tenants.yaml'}"


LAW = "context_limit: 64, overlong: truncate, family: {family: shifted_lognormal, shift: 8, mu: 2.5, sigma: 0.4}"


def test_text_becomes_a_store_a_store_becomes_an_adapter_and_a_poisoned_tenant_is_told_of(tmp_path):
    records = [{"q": "what is two and two", "a": "four"}, {"q": "what is two and four", "a": "six"}] * 4
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    tokenizer = words(tmp_path)
    done = lobra(
        "prepare", "sums.jsonl", f"tokenizer={tokenizer}", "fields=[q,a]", "store=sums", "run_dir=P", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "P" / "summary.json").read_text())
    assert (summary["sequences"], summary["labels"]) == (8, 16)

    file = tenants(
        tmp_path,
        "name: sums, batch_size: 4, context_limit: 64, store: sums, learning_rate: 2.0e-2",
        "name: wild, batch_size: 4, context_limit: 64, store: sums, learning_rate: 1.0e+30",
    )
    arguments = (*SMALL, "workload=own", file, "steps=5", "backend.quarantine_after=1", "run_dir=OUT")
    done = lobra_process("run", *arguments, cwd=tmp_path)

    assert done.returncode == 4, done.stderr  # done, but a tenant was given up
    told = json.loads((tmp_path / "OUT" / "summary.json").read_text())
    assert told["quarantined"] == ["wild"]
    assert told["losses"]["sums"][-1] < 0.7 * told["losses"]["sums"][0]
    assert "loss of wild" in done.stdout
    adapters = tmp_path / "OUT" / "0" / "job" / "adapters"
    assert [path.name for path in adapters.iterdir()] == ["sums"]
    assert (adapters / "sums" / "adapter_model.safetensors").is_file()


def begun(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A run of its own that has reported a step."""
    trace = folder / "OUT" / "0" / "trace.jsonl"
    trace.unlink(missing_ok=True)  # of an earlier start
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "run", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(HOME)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    patience = time.monotonic() + 90
    while time.monotonic() < patience and not (trace.exists() and trace.read_text()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process


def test_a_run_that_is_stopped_or_loses_a_rank_ends_in_one_line_and_goes_on_when_started_again(tmp_path):
    file = tenants(tmp_path, f"name: a, batch_size: 4, {LAW}", f"name: b, batch_size: 4, {LAW}")
    arguments = (*SMALL, "workload=own", file, "steps=40", "run_dir=OUT", "backend.checkpoint_steps=2")

    process = begun(tmp_path, *arguments)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 5, told
    assert [line for line in told.splitlines() if line.startswith("lobra: ")] == told.splitlines()
    assert "the job stopped as it was told" in told
    assert not (tmp_path / "OUT" / "summary.json").exists()
    before = len((tmp_path / "OUT" / "0" / "trace.jsonl").read_text().splitlines())
    assert 0 < before < 40

    process = begun(tmp_path, *arguments)
    (victim,) = rank_processes(tmp_path / "OUT", 1)
    os.kill(victim, signal.SIGKILL)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 6, told
    assert told.startswith("lobra: rank 1 died in ")
    assert "Traceback" not in told

    done = lobra_process("run", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    reports = list(stream.read(tmp_path / "OUT" / "0" / "trace.jsonl"))
    assert [report.step for report in reports] == list(range(40))
    assert reports[-1].losses[0] < reports[0].losses[0]

    told = {path: path.read_bytes() for path in (tmp_path / "OUT").rglob("*") if path.is_file()}
    check_refused(lobra("run", *arguments[:-3], "steps=30", "run_dir=OUT", cwd=tmp_path), 2, "already trained 40")
    check_refused(lobra("run", *arguments, "seed=9", cwd=tmp_path), 2, "resume with the same workload and seed")
    for path in ("0/directives.jsonl", "0/trace.jsonl", "summary.json", "run.json", "config.yaml"):
        assert (tmp_path / "OUT" / path).read_bytes() == told[tmp_path / "OUT" / path]


def rank_processes(folder: Path, rank: int) -> list[int]:
    """The process of one rank of the job in this folder."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                command, environment = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
            except OSError:
                continue
            belongs = b"executor.worker" in command and str(folder.relative_to(folder.parent)).encode() in command
            if belongs and f"\0RANK={rank}\0".encode() in environment and (path / "cwd").readlink() == folder.parent:
                found.append(int(path.name))
    return found


PLAYED = ("draws=8", "backend.share_cores=true")


def test_a_real_run_is_validated_by_a_profile_that_can_also_be_fitted_alone(tmp_path):
    file = tenants(tmp_path, f"name: a, batch_size: 4, {LAW}")
    done = lobra_process("run", *SMALL, "workload=own", file, "steps=3", "run_dir=OUT", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = lobra_process("validate", "OUT", "run_dir=V", "repeats=2", "again=1", *PLAYED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "predicted / measured" in done.stdout
    assert "repeat noise" in done.stdout
    body = json.loads((tmp_path / "V" / "summary.json").read_text())
    predicted = list(stream.read(tmp_path / "V" / "predicted.jsonl"))
    assert [report.seconds for report in predicted] == body["predicted_seconds"]
    assert 0.1 < body["ratio"] < 10  # the machine of a test may be busy with anything
    told = body["interval"]
    assert all(low <= high for low, high in zip(told["low_seconds"], told["high_seconds"], strict=True))
    assert (told["of"], told["draws"]) == (4, 8)  # two plays of two steps beside the first
    assert f"in their 90 % intervals: {told['covered']} of 4 measured step times" in done.stdout

    done = lobra("fit", "V/samples.csv", "max_tokens=256", "run_dir=F", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    fitted = ("cost=fitted", "cost.file=F/fitted.yaml")
    arguments = [each for each in SMALL if not each.startswith(("backend", "cost", "plans"))]
    done = lobra("run", "backend=sim", *arguments, *fitted, "workload=own", file, "steps=2", "run_dir=S", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "S" / "summary.json").read_text())["policies"]["lobra"]["status"] == "measured"

    samples = (tmp_path / "V" / "samples.csv").read_text().splitlines()
    write_atomically(tmp_path / "bad.csv", "\n".join([samples[0], samples[1].replace(",cpu,", ",abacus,")]) + "\n")
    check_refused(lobra("fit", "bad.csv", cwd=tmp_path), 2, "line 2: device is 'abacus'")


def test_a_profile_times_every_micro_batch_of_its_grid(tmp_path):
    grid = ("grid.tp=[1]", "grid.recompute=[0,2]", "grid.lengths=[16,32]", "grid.rows=[1,2]", "grid.packs=[[9,7]]")
    done = lobra_process(
        "profile", "model=demo", "cluster.gpus_per_node=2", *grid, "grid.repeats=2", "run_dir=P", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "P" / "samples.csv").read_text().splitlines()
    steps = [d for d in stream.read(tmp_path / "P" / "job" / "directives.jsonl") if isinstance(d, StepPlan)]
    assert len(steps) == 3 * (len(lines) - 1) // 2  # a round of warming up beside the two that count
    done = lobra("fit", "P/samples.csv", "run_dir=F", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "F" / "summary.json").read_text())["fitted"]
    assert told["deploy_seconds_per_gib"] > 0  # from tp 1 to tp 1 with recomputation
    assert "tp 1 recompute 2: derived price off by" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("validate", "nowhere"), "nowhere"),
        (("validate",), "run: a value is missing"),
        (("validate", "OUT", "backend=torch"), "a run is compared with the simulator; use backend=sim"),
        (("validate", "OUT", "draws=1"), "draws is 1; give 0 for no interval"),
        (("validate", "OUT", "backend.noise.fitted=true"), "only its interval; give draws=50 too"),
        (("fit", "nowhere.csv"), "gpu: nowhere.csv does not say what was measured"),
        (("fit", "x.csv", "max_tokens=0"), "max_tokens is 0"),
        (("prepare", "x.jsonl", "tokenizer=t.json"), "fields: give the names of the fields"),
        (("prepare", "x.jsonl", "tokenizer=t.json", "fields=[a]", "template='{a}'"), "template: give either fields"),
        (("profile", "backend=sim"), "backend: only the executor can be profiled"),
        (("run", "backend=torch", "cost=fitted"), "cost.file: a value is missing"),
        (("run", "backend=torch", "plans=best"), "plans is 'best'; choose own"),
        (("run", "backend=torch", "backend.dtyp=x"), "backend.dtyp: there is no such key; did you mean backend.dtype?"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, arguments, said):
    check_refused(lobra(*arguments, cwd=tmp_path), 2, said)
