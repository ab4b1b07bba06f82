"""What a detector's processes use: memory, and files in its folder."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from time import sleep

PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_FILES = 10_000  # in its folder


def tree(pid: int) -> list[int]:
    """A process, and all that descend from it, as Linux knows them: children before theirs."""
    found = [pid]
    for one in found:
        with suppress(OSError):  # it has ended
            for task in os.listdir(f"/proc/{one}/task"):  # noqa: PTH208  (many times a second)
                with open(f"/proc/{one}/task/{task}/children", encoding="ascii") as file:  # noqa: PTH123
                    found += map(int, file.read().split())
    return found


def resident(pids: list[int]) -> int:
    """Bytes of memory that processes have; what they share is counted for each. 0 of one that has ended."""
    return PAGE * sum(int(part[1]) for pid in pids if len(part := _read(pid, "statm").split()) > 1)


def shared_out(pids: list[int]) -> int:
    """The same with what they share divided among them, which takes longer."""
    lines = (line.split() for pid in pids for line in _read(pid, "smaps_rollup").splitlines())
    return 1024 * sum(int(line[1]) for line in lines if line[0] == "Pss:")


def files(folder: Path, most_bytes: float) -> tuple[int, int]:
    """Bytes and number of the files below a folder; counted until there are too many of either."""
    size = count = 0
    folders = [str(folder)]
    while folders and size <= most_bytes and count <= MOST_FILES:
        try:
            with os.scandir(folders.pop()) as parts:
                for part in parts:
                    count, size = count + 1, size + 512 * part.stat(follow_symlinks=False).st_blocks
                    if part.is_dir(follow_symlinks=False):
                        folders.append(part.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # who makes such names has something to hide
                count = MOST_FILES + 1
    return size, count


def remove(folder: Path) -> None:
    """Remove a folder, however deep it is: what is in its folders is moved up first. What can't be removed stays.

    Tried for two seconds: a process that was killed may be at its last file still.
    """
    for _ in range(20):
        _remove(folder)
        if not folder.exists():
            break
        sleep(0.1)


def _remove(folder: Path) -> None:
    number = 0
    with suppress(OSError):
        while inside := [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
            for entry in inside:
                os.chmod(entry.path, 0o700)  # noqa: PTH101
                for part in list(os.scandir(entry.path)):
                    if not part.is_dir(follow_symlinks=False):
                        os.unlink(part.path)  # noqa: PTH108
                        continue
                    os.chmod(part.path, 0o700)  # noqa: PTH101
                    number += 1
                    os.rename(part.path, folder / f".{os.getpid()}-{number}")  # noqa: PTH104
                os.rmdir(entry.path)  # noqa: PTH106
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def _read(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""
