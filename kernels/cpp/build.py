"""The shared library of the C++ kernels: compiled once for a processor and compiler, then found in the cache."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor

HEADER = "vector.h"
SOURCES = ("attention.cpp", "cross_entropy.cpp", "units.cpp", "weights.cpp")
# No flag may change what NaN and infinity do. On this processor alone: its widest vectors are the point.
FLAGS = (
    "-O3", "-march=native", "-std=c++20", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=fast", "-Wno-psabi",
)  # fmt: skip
COMPILERS = ("c++", "g++", "clang++")

Argument = Tensor | int | float | ctypes.Structure | ctypes.Array[ctypes.c_void_p] | None


def compiler() -> str:
    """The C++ compiler: what CXX names, or the first that is installed. RuntimeError without one."""
    named = os.environ.get("CXX")
    found = next(filter(None, map(shutil.which, [named] if named else COMPILERS)), None)
    if found is None:
        raise RuntimeError(f"no C++ compiler ({named or ', '.join(COMPILERS)}) is installed")
    return found


def version(command: str) -> str:
    """What a compiler says of itself."""
    return subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout


def cached(command: str) -> Path:
    """Where the library of this source, processor and compiler is or will be."""
    home = files("trainwreck.kernels.cpp")
    parts = [(home / name).read_text(encoding="utf-8") for name in (HEADER, *SOURCES)]
    try:
        cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
        parts += [line for line in cpu if line.startswith(("model name", "flags"))]
    except OSError:
        parts.append(platform.processor())
    key = hashlib.sha256("\0".join((version(command), *FLAGS, *parts)).encode()).hexdigest()[:16]
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "trainwreck" / f"kernels-{key}.so"


@cache
def library() -> ctypes.CDLL:
    """The library, built where it is not there yet. RuntimeError, in one line, where it can't be."""
    try:
        command = compiler()
        path = cached(command)
        if not path.exists():
            _build(command, path)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", None) or str(error)
        raise RuntimeError(f"the C++ kernels can't be built: {message.strip().splitlines()[0]}") from None


def _build(command: str, path: Path) -> None:
    """Beside its place first, and moved when it is whole: processes may build at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        home = Path(str(files("trainwreck.kernels.cpp")))
        sources = [str(home / name) for name in SOURCES]
        subprocess.run([command, *FLAGS, *sources, "-o", str(made)], capture_output=True, text=True, check=True)
        made.replace(path)


def call(name: str, *arguments: Argument) -> None:
    """Call a function of the library. Tensors go as the addresses of their first elements, structures by reference."""
    getattr(library(), name)(*map(_passed, arguments))


def _passed(value: Argument) -> object:
    if isinstance(value, Tensor):
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, ctypes.Structure):
        return ctypes.byref(value)
    if isinstance(value, float):
        return ctypes.c_float(value)
    return ctypes.c_int64(value) if isinstance(value, int) else value


def address(tensor: Tensor | None) -> int | None:
    """Where a tensor's first element is; None for no tensor."""
    return None if tensor is None else tensor.data_ptr()


def is_bf16(x: Tensor) -> int:
    """1 for bfloat16, 0 for float32: the two types that kernels are made for."""
    return int(x.dtype is torch.bfloat16)
