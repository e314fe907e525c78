"""One rank of a job: `python -m executor.worker RUN_DIR`, started by torchrun, srun, Kubernetes or executor.launch.

It needs the job's folder and what torchrun sets: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT. How it ends it
tells in its exit code and in `ranks/rank-N.outcome.json`: 0 done, 2 bad input, 3 infeasible, 5 stopped and resumable,
6 failure.
"""

import argparse
import contextlib
import json
import os
import platform
import sys
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from executor import description
from executor.assembly import device_of, settings_of
from executor.control import Control, kind_of
from executor.crew import RANKS
from executor.description import Execution
from executor.failures import Kind, exit_code
from executor.identity import MACHINE
from executor.parentage import end_with_parent
from executor.resumption import Resumption, find
from executor.session import Session
from executor.watch import Watch
from lobra.errors import BadInput, Infeasible
from lobra.files import write_atomically

_SLACK_SECONDS = 60.0  # the watch speaks before a collective's own time-out, which names nobody


@dataclass(frozen=True, slots=True)
class Seat:
    """What the launcher tells a rank."""

    rank: int
    ranks: int
    local_rank: int
    address: str
    port: int

    @classmethod
    def of(cls, environment: dict[str, str]) -> "Seat":
        """Read from torchrun's variables; BadInput names the one that is missing or no number."""
        try:
            rank, ranks, port = (int(environment[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
            return cls(rank, ranks, int(environment.get("LOCAL_RANK", rank)), environment["MASTER_ADDR"], port)
        except KeyError as error:
            raise BadInput(f"{error.args[0]} is not set; start the worker with torchrun, srun or lobra run") from None
        except ValueError as error:
            raise BadInput(f"RANK, WORLD_SIZE, LOCAL_RANK and MASTER_PORT must be numbers ({error})") from None


def main() -> int:
    """Play this rank's part to the end; the exit code."""
    parser = argparse.ArgumentParser(prog="executor.worker")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--store-socket", type=int, help="descriptor of the store's listening socket; -1: another rank's"
    )
    arguments = parser.parse_args()
    end_with_parent(os.getppid())
    try:
        seat = Seat.of(dict(os.environ))
    except BadInput as error:
        sys.stderr.write(f"executor.worker: {error}\n")
        return exit_code("input")
    (arguments.folder / RANKS).mkdir(parents=True, exist_ok=True)
    watch = Watch(arguments.folder / RANKS, seat.rank)
    watch.start()
    kind, message = _told(arguments.folder, seat, watch, arguments.store_socket)
    watch.leave_word(kind, message)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code(kind))  # nothing may wait for peers that are gone


def _told(folder: Path, seat: Seat, watch: Watch, socket: int | None) -> tuple[Kind, str]:
    try:
        kind = play(folder, seat, watch, socket)
    except (BadInput, Infeasible) as error:
        traceback.print_exc()
        return ("infeasible" if isinstance(error, Infeasible) else "input"), str(error)
    except BaseException as error:  # noqa: BLE001 -- whatever it is, the launcher must learn of it
        traceback.print_exc()
        lines = str(error).strip().splitlines() or ["no text"]
        return kind_of(error), f"{type(error).__name__}: {lines[0]}"
    return kind, ""


def play(folder: Path, seat: Seat, watch: Watch, socket: int | None) -> Kind:
    """From the run description to the end of the feed."""
    execution = _description(folder, watch)
    watch.expect(execution.faults)
    torch.set_num_threads(execution.threads)
    settings_of(execution)  # refused before anybody waits for anybody
    device = device_of(execution, seat.local_rank)
    timeout = timedelta(seconds=max(execution.deadline_seconds, execution.setup_seconds) + _SLACK_SECONDS)
    with watch.allowing(execution.rendezvous_seconds + _SLACK_SECONDS):
        watch.mark("rendezvous")
        _meet(seat, execution, device, timeout, socket)
        control = Control(timeout)
        watch.mark("comparison of settings")
        _compare(folder, control, execution, device)
    with watch.allowing(execution.setup_seconds):
        watch.mark("search for a checkpoint")
        resumption = _resume(folder, control, execution)
        origin = _common_origin(control) - resumption.seconds
    with watch.allowing(execution.deadline_seconds):
        session = Session(
            folder,
            execution,
            control=control,
            watch=watch,
            device=device,
            resumption=resumption,
            origin=origin,
        )
        kind = session.run()
        watch.mark("farewell")
        with contextlib.suppress(RuntimeError):  # whoever has gone already has nothing more to say
            control.anyone(False)
    return kind


def _description(folder: Path, watch: Watch) -> Execution:
    """The run description; it may come after the ranks where somebody else started them."""
    watch.mark("wait for run.json")
    patience = time.monotonic() + Execution().rendezvous_seconds
    while not (folder / description.NAME).exists() and time.monotonic() < patience and not watch.stop:
        time.sleep(0.05)
    return description.load(folder)


def _meet(seat: Seat, execution: Execution, device: torch.device, timeout: timedelta, socket: int | None) -> None:
    if seat.ranks != execution.ranks:
        raise BadInput(f"ranks is {execution.ranks}, but {seat.ranks} were started; start as many as the plan uses")
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if socket is None:
        dist.init_process_group(backend, timeout=timeout)
        return
    patience = timedelta(seconds=execution.rendezvous_seconds)
    store = dist.TCPStore(  # type: ignore[attr-defined]  # public, but not listed as exported
        host_name=seat.address,
        port=seat.port,
        world_size=seat.ranks,
        is_master=seat.rank == 0,
        timeout=patience,
        master_listen_fd=socket if socket >= 0 else None,
    )
    dist.init_process_group(backend, store=store, rank=seat.rank, world_size=seat.ranks, timeout=timeout)


def _compare(folder: Path, control: Control, execution: Execution, device: torch.device) -> None:
    """Refuse to begin unless every rank has the same description and runs the same versions."""
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    if control.rank == 0:
        write_atomically(folder / RANKS / MACHINE, json.dumps({**versions, **_machine(device)}, indent=2) + "\n")
    told = control.collect(description.agreed(execution, versions))
    for rank, words in enumerate(told):
        if words != told[0]:
            difference = description.first_difference(words, told[0])
            raise BadInput(f"rank {rank} differs from rank 0: {difference}; give all ranks the same run.json")


def _machine(device: torch.device) -> dict[str, str | int]:
    """The hardware on which times are taken."""
    cores = len(os.sched_getaffinity(0))
    if device.type == "cuda":
        return {"hardware": torch.cuda.get_device_name(device), "device": "cuda", "cores": cores}
    models = [line for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    name = models[0].partition(":")[2].strip() if models else platform.machine()
    return {"hardware": name, "device": "cpu", "cores": cores}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _resume(folder: Path, control: Control, execution: Execution) -> Resumption:
    """What rank 0 finds on disk, on every rank."""
    found = find(folder, execution.numerics()) if control.rank == 0 else None
    told = control.say(found.encode() if found is not None else None)
    if control.rank == 0:
        (folder / RANKS / "started").touch()
    return found if found is not None else Resumption.decode(told)


def _common_origin(control: Control) -> float:
    """Time zero on this rank's clock: rank 0's where both are on one machine, else that of a common moment."""
    control.anyone(False)
    now = time.perf_counter()
    machine = Path("/proc/sys/kernel/random/boot_id")
    boot = machine.read_text(encoding="utf-8").strip() if machine.exists() else platform.node()
    told = control.collect_json({"boot": boot, "now": now})[0]
    return float(told["now"]) if told["boot"] == boot else now


if __name__ == "__main__":
    sys.exit(main())
