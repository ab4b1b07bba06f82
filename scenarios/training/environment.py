"""What a process that trains does first, and what it says of where it ran."""

import ctypes
import os
import platform
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from trainwreck.kernels.dtypes import has_half_products, sum_in_float32

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's mallopt(3)


def prepare() -> None:
    """One thread, whatever was set before, freed memory kept, and sums of half-precision products in float32.

    Threads would change the order of sums, and with it the last bits of a run.
    """
    torch.set_num_threads(1)
    sum_in_float32()
    _keep_freed_memory()


@cache
def _keep_freed_memory() -> None:
    """By default every large tensor is mapped and faulted in anew."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


RESULTS = Path("results")  # of the current directory: where proofs and measurements are recorded
# Of the processor itself, whatever it is limited to; where the system lists none, what PyTorch says is taken.
INSTRUCTIONS = {"amx_tile": "AMX", "avx512f": "AVX512", "avx2": "AVX2"}
PACKAGES = ("torch", "numpy", "pyarrow", "pandas", "safetensors", "hydra-core")


def environment() -> dict[str, Any]:
    """Versions and hardware, JSON-safe; no time and no path, so the same machine gives the same."""
    return {
        "trainwreck": version("trainwreck"),
        "revision": revision(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def half_products(device: str) -> str:
    """How matrix products of float16 are computed on a type of device, in words."""
    return "of the device, sums in float32" if has_half_products(device) else "emulated: operands rounded, float32 sums"


def processor() -> str:
    """The processor's model name, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def processor_flags() -> set[str]:
    """Instruction sets that Linux lists; empty elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return set(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def processor_kind() -> str:
    """Processor and widest instructions, as a folder may be named: `intel-xeon-amx`."""
    flags = processor_flags()
    widest = next((name for flag, name in INSTRUCTIONS.items() if flag in flags), None)
    name = re.sub(r"\(\w+\)|@.*|\b(processor|cpu)\b", " ", processor(), flags=re.IGNORECASE)
    return slug(f"{name} {widest or torch.backends.cpu.get_cpu_capability()}")


def slug(words: str) -> str:
    """The words in lower case, all but letters, digits and points as hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")


def revision() -> str:
    """The git commit of the source tree, with `+` where it has changes; empty outside a checkout."""
    folder = Path(__file__).resolve().parent
    git = ["git", "-C", str(folder)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return commit + ("+" if changed.stdout.strip() else "")


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
