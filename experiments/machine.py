"""The machine as `lobra doctor` shows it: cores, memory, threads, and what torch finds."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from lobra.codec import parse
from lobra.errors import BadInput

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
KIB, GIB = 2**10, 2**30
PATIENCE_SECONDS = 60.0
_MEMORY, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def machine_rows(
    memory: Path = _MEMORY, cgroup: Path = _CGROUP, environment: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    """What and how much; memory, cgroup: where the kernel tells of them."""
    given = dict(os.environ) if environment is None else environment
    settings = ", ".join(f"{name}={given[name]}" for name in THREADS if name in given)
    usable, present = len(os.sched_getaffinity(0)), os.cpu_count() or 0
    limit = core_limit(cgroup)
    cores = f"{usable} of {present}" + (f", limited to {limit:g} by the container" if limit is not None else "")
    hint = "" if "OMP_NUM_THREADS" in given else "; set OMP_NUM_THREADS=1, or every process takes all cores"
    return [
        ("cores", cores),
        ("memory", told_memory(memory, cgroup)),
        ("thread settings", (settings or "none") + hint),
    ]


def told_memory(memory: Path, cgroup: Path) -> str:
    """All of it, what is free, and a container's limit."""
    found = {}
    for line in _text(memory).splitlines():
        name, _, value = line.partition(":")
        amount = value.split()
        if amount and amount[0].isdigit():
            found[name] = int(amount[0]) * KIB / GIB
    if "MemTotal" not in found:
        return "unknown"
    free = f", {found['MemAvailable']:.1f} GiB available" if "MemAvailable" in found else ""
    limit = _text(cgroup / "memory.max").strip()
    bound = f", limited to {int(limit) / GIB:.1f} GiB by the container" if limit.isdigit() else ""
    return f"{found['MemTotal']:.1f} GiB{free}{bound}"


def core_limit(cgroup: Path) -> float | None:
    """Cores' worth of time that a container may use; None where it is not limited."""
    parts = _text(cgroup / "cpu.max").split()
    return int(parts[0]) / int(parts[1]) if len(parts) == 2 and all(part.isdigit() for part in parts) else None


def torch_rows() -> list[tuple[str, str]]:
    """How ranks can talk, and GPUs with their memory, by a process of its own: nothing else here needs torch."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "executor.facilities"],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
        found: dict[str, Any] = parse(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, BadInput, IndexError) as error:
        return [("ranks", f"unknown: torch could not be asked ({type(error).__name__})")]
    return [
        ("gloo (ranks on CPUs)", "available" if found["gloo"] else "absent"),
        ("nccl (ranks on GPUs)", "available" if found["nccl"] else "absent"),
        ("torch threads a process", str(found["threads"])),
        ("GPU memory", "; ".join(f"{gpu['name']} {gpu['memory_gib']} GiB" for gpu in found["gpus"]) or "no GPU"),
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
