"""How much memory there is, and a worker that takes no more than its share."""

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

SHARE = 0.75  # of the machine's memory, or of the control group's, for all workers together by default
SLACK = 128 * 2**20  # bytes for what a process maps and hardly uses: stacks of threads


@cache
def available(device: str = "cpu") -> int | None:
    """Bytes of memory that the machine, its control group or the GPU has; None where the system does not say."""
    if device != "cpu":
        import torch

        return int(torch.cuda.get_device_properties(0).total_memory)
    found = []
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemTotal:"):
            found.append(1024 * int(line.split()[1]))
    return min(found + group_limits(_lines(Path("/proc/self/cgroup"))), default=None)


def group_limits(groups: Sequence[str], root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """Bytes that the control groups of a process allow it, and the groups that these are in.

    groups: lines of /proc/self/cgroup, as cgroups(7) has them: number, controllers and path, with colons between;
    version 2 has number 0 and no controllers, version 1 a tree of its own for memory.
    """
    found = []
    for line in groups:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            base, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            text = "".join(_lines(folder / name))
            if text.isdigit():  # "max" where there is no limit
                found.append(int(text))
            if folder == base:
                break
    return found


def _lines(path: Path) -> list[str]:
    """Of a file of the system; none where it is not there."""
    try:
        return path.read_text(encoding="ascii").splitlines()
    except OSError:
        return []


@cache
def bound(memory: int | None) -> None:
    """Let this process take so many bytes and no more; what it asks for above is a MemoryError. Linux only.

    The system's limit counts what is mapped, of which a process that has just imported PyTorch uses a part only:
    so it is set to what is mapped now, what may still be used, and `SLACK`.
    """
    if memory is None or sys.platform != "linux":
        return
    import resource

    status = (line.partition(":") for line in _lines(Path("/proc/self/status")))
    facts = {name: value.split() for name, _, value in status}
    mapped, used = (1024 * int(facts[name][0]) for name in ("VmData", "VmRSS"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = mapped + max(0, memory - used) + SLACK
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
