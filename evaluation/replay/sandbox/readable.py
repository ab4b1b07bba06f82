"""The files that a detector's process may read: Python, the system's programs, its own file, and what is declared.

No data set is among them: not the one that it is scored on, not the sample that ships with the package, not one that
lies beside the detector's file.
"""

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from trainwreck.evaluation.dataset.sample import sample

SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/nix/store", "/gnu/store")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dri", "/dev/kfd")
HARDWARE = ("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/bus/pci", "/sys/class/drm", "/sys/fs/cgroup")
PROC = ("cpuinfo", "meminfo", "stat", "filesystems", "driver", "sys", "version", "loadavg")  # of the machine


class Files(NamedTuple):
    """Paths that a process may read, files and folders with all that is below; and folders that it may list."""

    readable: list[str]
    listed: list[str]


def files_of(words: Sequence[str], files: Iterable[str], declared: Iterable[str] = ()) -> Files:
    """What a command may read.

    words: the command, its program by its full path. files: of the detector; of their folders those files are readable
    that lie directly there, and folders of Python files. declared: by the user.
    """
    program, found = Path(words[0]), Files([*HARDWARE, *map(str, declared)], [])
    for folder in [*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, *SYSTEM, *_libraries()]:
        _below(Path(folder), sample().resolve(), found)
    for path in {_prefix(program), _prefix(program.resolve()), *_packages()}:
        _below(path, sample().resolve(), found)
    for folder in [*_paths("PYTHONPATH"), *sys.path, *(str(Path(file).parent) for file in files)]:
        if Path(folder).name in ("site-packages", "dist-packages"):
            _below(Path(folder), sample().resolve(), found)
        elif folder:
            _sources(Path(folder), sample().resolve(), found)
    return Files(*(list(dict.fromkeys(paths)) for paths in found))


def devices() -> list[str]:
    """Paths that may be written to, besides the process's own folder."""
    return [*DEVICES, *map(str, Path("/dev").glob("nvidia*"))]


def _libraries() -> list[str]:
    return [*_paths("LD_LIBRARY_PATH"), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]


def _paths(name: str) -> list[str]:
    return [folder for folder in os.environ.get(name, "").split(os.pathsep) if folder]


def _prefix(program: Path) -> Path:
    """The folder in which a program is installed; the program itself where it is in nobody's bin, or that is a home."""
    above = program.parent.parent
    is_installed = program.parent.name in ("bin", "Scripts") and above not in (Path.home(), Path("/"))
    return above if is_installed else program


def _packages() -> Iterator[Path]:
    """Folders of this package: an editable install has them side by side, beside data that is not the package's."""
    for name in ("trainwreck", *(f"trainwreck.{part}" for part in ("kernels", "models", "scenarios", "evaluation"))):
        spec = find_spec(name)
        if spec is not None:
            yield from map(Path, spec.submodule_search_locations or ())


def _below(folder: Path, hidden: Path, found: Files) -> None:
    """A folder, or what is in it without one that is hidden."""
    real = folder.resolve()
    if real == hidden or hidden in real.parents or not folder.exists():
        return
    if real not in hidden.parents:
        found.readable.append(str(folder))
        return
    found.listed.append(str(folder))
    for part in real.iterdir():
        _below(part, hidden, found)


def _sources(folder: Path, hidden: Path, found: Files) -> None:
    """The files of a folder, and the folders in it that hold Python files; nothing of a data set, and none hidden."""
    with suppress(OSError), os.scandir(folder) as parts:
        found.listed.append(str(folder))
        here = list(parts)
        is_data_set = any(part.name == "manifest.json" for part in here)
        for part in here:
            is_code = part.name.endswith(".py") if part.is_file() else any(Path(part.path).glob("*.py"))
            if is_code or (part.is_file() and not is_data_set):
                _below(Path(part.path), hidden, found)
