"""What the doctor says of the machine."""

from experiments.machine import core_limit, machine_rows, told_memory

KERNEL = (
    "MemTotal:       24640000 kB\nMemFree:          100 kB\nMemAvailable:   12582912 kB\nHugePages_Total:       0\n"
)


def test_memory_is_told_with_what_is_free_and_what_a_container_may_use(tmp_path):
    (tmp_path / "meminfo").write_text(KERNEL)
    assert told_memory(tmp_path / "meminfo", tmp_path) == "23.5 GiB, 12.0 GiB available"

    (tmp_path / "memory.max").write_text("max\n")
    assert told_memory(tmp_path / "meminfo", tmp_path) == "23.5 GiB, 12.0 GiB available"

    (tmp_path / "memory.max").write_text(f"{2**33}\n")
    assert told_memory(tmp_path / "meminfo", tmp_path).endswith(", limited to 8.0 GiB by the container")
    assert told_memory(tmp_path / "absent", tmp_path) == "unknown"


def test_a_container_may_have_fewer_cores_than_it_sees(tmp_path):
    assert core_limit(tmp_path) is None
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert core_limit(tmp_path) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert core_limit(tmp_path) == 1.5
    rows = dict(machine_rows(tmp_path / "absent", tmp_path, {}))
    assert rows["cores"].endswith(", limited to 1.5 by the container")


def test_threads_that_are_not_bounded_are_pointed_out(tmp_path):
    unbounded = dict(machine_rows(tmp_path, tmp_path, {}))["thread settings"]
    bounded = dict(machine_rows(tmp_path, tmp_path, {"OMP_NUM_THREADS": "1"}))["thread settings"]

    assert unbounded == "none; set OMP_NUM_THREADS=1, or every process takes all cores"
    assert bounded == "OMP_NUM_THREADS=1"
