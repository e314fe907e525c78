"""Four real texts, from JSON lines to adapters: prepare, train on four CPU ranks, validate; as a user would type it.

Reads the folder of `--reference-data` (texts of school maths, competition maths, medicine and meetings; the tiny Llama
stories260K with its tokenizer), writes everything below `--output`. Fails where a tenant's loss does not fall.
The prediction is told, not judged: on a shared machine two plays of the same step differ by as much.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

TEXTS = {"gsm8k": 16, "math_test": 8, "pubmedqa_pqal": 4, "qmsum_topic_segments": 4}  # file: sequences a step
LIMIT = 512  # positions of the model
PLANS = "2,1/2048x1;1,1/1024x2"
ADAPTER = "overlong: truncate, rank: 8, alpha: 16, learning_rate: 5.0e-3"


def lobra(*arguments: str, cwd: Path) -> None:
    """`lobra ARGUMENTS` in a process of its own; an error where it does not end well."""
    home = str(Path(__file__).parents[1])
    found = os.environ.get("PYTHONPATH")
    environment = os.environ | {"PYTHONPATH": f"{home}{os.pathsep}{found}" if found else home}
    subprocess.run(  # noqa: S603  # this project's own command
        [sys.executable, "-m", "experiments.cli", *arguments], cwd=cwd, env=environment, check=True
    )


def prepared(data: Path, output: Path, divide: int) -> Path:
    """Token stores of the texts, and the tenants' file that names them."""
    lines = []
    for name, batch in TEXTS.items():
        tokenizer = f"tokenizer={data / 'models' / 'stories260K' / 'tokenizer.json'}"
        if not (output / "stores" / name).is_dir():
            text, store = str(data / "text" / f"{name}.jsonl"), f"store=stores/{name}"
            lobra("prepare", text, tokenizer, "fields=[text]", "begin='<s>'", store, f"run_dir=P/{name}", cwd=output)
        head = f"name: {name}, store: stores/{name}, batch_size: {max(1, batch // divide)}, context_limit: {LIMIT}"
        lines.append(f"- {{{head}, {ADAPTER}}}\n")
    (output / "tenants.yaml").write_text("tenants:\n" + "".join(lines))
    return output / "tenants.yaml"


def trained(data: Path, output: Path, steps: int) -> dict[str, list[float]]:
    """Losses of each tenant, step by step."""
    model = ("model=directory", f"model.path={data / 'models' / 'stories260K'}")
    ranks = ("cluster=cpu", "cluster.gpus_per_node=4", f"plans='{PLANS}'")
    tenants = ("workload=own", "workload.file=tenants.yaml", f"steps={steps}")
    lobra("run", "backend=torch", *model, *ranks, *tenants, "run_dir=OUT", cwd=output)
    losses: dict[str, list[float]] = json.loads((output / "OUT" / "summary.json").read_text())["losses"]
    return losses


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a loss did not fall."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference-data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--output", type=Path, default=Path("runs") / "real_text")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--divide", type=int, default=1, help="train on that part of the sequences, to be quick")
    parser.add_argument("--repeats", type=int, default=3, help="of the profile; 0: no prediction is made")
    wanted = parser.parse_args(arguments)
    if not (wanted.reference_data / "text").is_dir():
        sys.stdout.write(f"skipped: there are no texts in {wanted.reference_data}; name their folder\n")
        return 0
    data, output = wanted.reference_data.resolve(), wanted.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    prepared(data, output, wanted.divide)
    losses = trained(data, output, wanted.steps)
    if wanted.repeats:
        lobra("validate", "run=OUT", f"repeats={wanted.repeats}", "run_dir=V", cwd=output)
    span = max(1, wanted.steps // 5)
    risen = [name for name, values in losses.items() if not fmean(values[-span:]) < fmean(values[:span])]
    sys.stdout.write(f"losses that did not fall: {', '.join(risen) or 'none'}\n")
    return 1 if risen else 0


if __name__ == "__main__":
    raise SystemExit(main())
