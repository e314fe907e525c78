"""What only an accelerator can show, in under five minutes: right gradients, kernels, a layer's times, throughput.

    benchmarks/device_check.sh [--output runs/device] [--dry-run]

Checks, each with its limit: gradients of a joint step in every back end against the CPU in float64; the kernel for
ragged segments against the loop, and its leaks. Measured: one layer of Llama-3-8B in bfloat16 with r = 16
(`layer.csv`, see device_layer.py), and useful tokens a second, beside PEFT where that is installed. Exit code 1 where
a check fails. --dry-run: the same on the CPU with tiny sizes, to try the script; its times mean nothing.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks.device_layer import COLUMNS, DRY, FULL, Scale, profile, write_table
from benchmarks.training_ways import LONGEST, Ours, World, agree, joint_works, make_world, packed
from executor.attention import attend, choose
from executor.config import ModelConfig
from executor.engine import CPU
from executor.settings import AttentionKind, Settings
from lobra.plan import StepPlan

SMALL = ModelConfig(layers=4, hidden=256, intermediate=512, heads=8, kv_heads=4, vocabulary=1024, head_size=32)
MIDDLE = ModelConfig(layers=8, hidden=2048, intermediate=5632, heads=16, kv_heads=4, vocabulary=32000, head_size=128)
TINY = ModelConfig(layers=2, hidden=32, intermediate=64, heads=4, kv_heads=2, vocabulary=64, head_size=8)
GRADIENTS = {"float64": 1e-11, "float32": 2e-5, "bfloat16": 0.05}  # relative, of an adapter's whole gradient
KERNEL = 0.02  # relative error of outputs and gradients in bfloat16
SEGMENTS = (300, 17, 1, 640, 66)
REPEATS = 5

Tensor = torch.Tensor


@dataclass(frozen=True)
class Check:
    """A number beside its limit."""

    name: str
    value: float
    limit: float

    @property
    def good(self) -> bool:
        """Whether it is met; a NaN is not."""
        return self.value <= self.limit


def gradients(world: World, settings: Settings, device: torch.device, capacity: int) -> list[Tensor]:
    """Every tenant's gradient of one joint packed step, flat, float64 on the CPU."""
    ours = Ours(world, packed(world.refs, capacity), settings, device)
    ours.engine.run_step(StepPlan(0, (ours.work,), updates=()))
    states = [ours.engine.export(tenant.name) for tenant in world.plan.tenants]
    return [
        torch.cat([each.flatten() for each in state.tensors["gradient"].values()]).double().cpu() for state in states
    ]


def difference(found: Tensor, right: Tensor) -> float:
    """Norm of the difference over the norm."""
    return float((found - right).norm() / right.norm())


def gradient_checks(device: torch.device, *, dry: bool) -> Iterator[Check]:
    """Every back end against the CPU in float64."""
    config, longest = (TINY, 32) if dry else (SMALL, 256)
    world = make_world(config, longest=longest)
    exact = gradients(world, Settings(dtype="float64"), CPU, 2 * longest)
    for dtype, limit in GRADIENTS.items():
        for lora in ("loop", "catmask", "grouped"):
            if (lora, dtype) == ("grouped", "float64"):
                continue
            kinds = dict.fromkeys(("loop", choose("auto", getattr(torch, dtype), device)))
            for attention in kinds:
                settings = Settings(dtype=dtype, lora=lora, attention=attention)
                found = gradients(world, settings, device, 2 * longest)
                worst = max(difference(*pair) for pair in zip(found, exact, strict=True))
                yield Check(f"gradients {dtype}, lora {lora}, attention {attention}", worst, limit)


def kernel_checks(scale: Scale, device: torch.device) -> Iterator[Check]:
    """The ragged kernel (in a dry run the dense mask) against the loop in float32 on the same numbers, and leaks."""
    chosen = choose("auto", scale.dtype, device)
    kind: AttentionKind = "mask" if chosen == "loop" else chosen
    config, starts = scale.config, [sum(SEGMENTS[:i]) for i in range(len(SEGMENTS))]
    segments = list(zip(starts, SEGMENTS, strict=True))
    torch.manual_seed(0)
    counts = (config.heads, config.kv_heads, config.kv_heads, config.heads)
    *inputs, slope = (
        torch.randn(sum(SEGMENTS), count, config.head_size, device=device, dtype=scale.dtype) for count in counts
    )

    def outcome(which: AttentionKind, dtype: torch.dtype, weight: Tensor) -> list[Tensor]:
        leaves = [each.detach().to(dtype).requires_grad_() for each in inputs]
        y = attend(leaves[0], leaves[1], leaves[2], segments, which)
        y.backward(weight.to(dtype))
        return [y.detach().double(), *(leaf.grad.double() for leaf in leaves if leaf.grad is not None)]

    pairs = zip(outcome(kind, scale.dtype, slope), outcome("loop", torch.float32, slope), strict=True)
    for name, (found, right) in zip(("output", "dq", "dk", "dv"), pairs, strict=True):
        yield Check(f"attention {kind} against loop, {name}", difference(found, right), KERNEL)
    start, length = segments[3]
    only = torch.zeros_like(slope)
    only[start : start + length] = slope[start : start + length]
    leaked = 0.0
    for found in outcome(kind, scale.dtype, only)[1:]:
        found[start : start + length] = 0
        leaked = max(leaked, float(found.abs().max()))
    yield Check(f"attention {kind}, gradient in other sequences", leaked, 0.0)


def seconds_of(step: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median wall time of a step."""
    taken = []
    for _ in range(repeats):
        _finish(device)
        begun = time.perf_counter()
        step()
        _finish(device)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def throughput(device: torch.device, *, dry: bool) -> dict[str, float]:
    """Useful tokens a second by way, after all ways agreed on the losses."""
    config, longest = (TINY, 32) if dry else (MIDDLE, LONGEST)
    settings = Settings(dtype="float32" if dry else "bfloat16")
    world = make_world(config, longest=longest)
    ways: dict[str, Callable[[], tuple[float, ...]]] = {
        name: Ours(world, work, settings, device) for name, work in joint_works(world, 4 * longest, 4).items()
    }
    with tempfile.TemporaryDirectory() as folder:
        if importlib.util.find_spec("peft"):
            ways |= _peft_ways(world, settings, device, Path(folder))
        else:
            print("PEFT is not installed: the executor's own throughput only")
        agree({name: way() for name, way in ways.items()}, settings.dtype)
        return {name: world.useful / seconds_of(way, device, 1 if dry else REPEATS) for name, way in ways.items()}


def _peft_ways(world: World, settings: Settings, device: torch.device, folder: Path) -> dict[str, Callable[[], object]]:
    from benchmarks.hugging_face import Peft, in_turn, write_base  # noqa: PLC0415  # an optional extra

    write_base(folder / "base", world.config)
    adapters, made = world.export(folder), {}
    for name, batch, ordered in (
        ("PEFT in arrival order", 3, False),
        ("PEFT sorted", 3, True),
        ("PEFT batch 1", 1, False),
    ):
        batches = in_turn(world, batch, ordered=ordered)
        made[name] = Peft(folder / "base", adapters, batches, masked=True, dtype=settings.dtype, device=device)
    return made


def noise_and_mixing(rows: list[dict[str, str | int | float]]) -> tuple[float, float]:
    """Of the layer: median spread of repeats, and of mixed packs against the uniform one with their two numbers."""
    points: dict[tuple[object, ...], list[float]] = {}
    for row in rows:
        key = tuple(row[column] for column in COLUMNS[:9])
        points.setdefault(key, []).append(float(row["forward_seconds"]) + float(row["backward_seconds"]))
    spreads = [(max(taken) - min(taken)) / statistics.median(taken) for taken in points.values()]
    off, uniform = [], 1.0
    for key, taken in points.items():
        middle = statistics.median(taken)
        if key[0] == "uniform":
            uniform = middle  # the mixed ones follow it
        elif key[0] == "mixed":
            off.append(abs(middle / uniform - 1))
    return statistics.median(spreads), statistics.median(off)


def examine(scale: Scale, device: torch.device, output: Path, *, dry: bool) -> bool:
    """Everything, printed as it is found and written to `output`; whether all checks are met."""
    begun = time.perf_counter()
    checks = []
    for check in (*gradient_checks(device, dry=dry), *kernel_checks(scale, device)):
        checks.append(check)
        print(f"{check.name:64} {check.value:9.2e}  at most {check.limit:.0e}: {'ok' if check.good else 'FAILED'}")
    rows = profile(scale, device)
    write_table(output / "layer.csv", rows)
    noise, mixing = noise_and_mixing(rows)
    print(f"layer: {len(rows)} times in layer.csv; spread of repeats {noise:.1%}; mixed against uniform {mixing:.1%}")
    speeds = throughput(device, dry=dry)
    for name, speed in speeds.items():
        print(f"{name:32} {speed:12.0f} useful tokens / s")
    body = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "dry_run": dry,
        "checks": [asdict(check) for check in checks],
        "layer": {"noise": noise, "mixed_against_uniform": mixing},
        "useful_tokens_per_second": speeds,
        "seconds": time.perf_counter() - begun,
    }
    (output / "device_check.json").write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    return all(check.good for check in checks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("runs/device"))
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, with tiny sizes")
    options = parser.parse_args()
    if not options.dry_run and not torch.cuda.is_available():
        print("this check needs a CUDA device; try the script with --dry-run", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    device = CPU if options.dry_run else torch.device("cuda", 0)
    options.output.mkdir(parents=True, exist_ok=True)
    good = examine(DRY if options.dry_run else FULL, device, options.output, dry=options.dry_run)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
