"""The library of C++ kernels: built once, kept for a source, compiler and processor, and refused in one line."""

import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.cpp import build
from trainwreck.kernels.selection import choose
from trainwreck.scenarios.training.backend import Backend, backend

MADE = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
needs_one = pytest.mark.skipif(MADE is None, reason="needs a C++ compiler")


def has_vectors_of_eight() -> bool:
    if MADE is None or not (facts := Path("/proc/cpuinfo")).exists():
        return False
    return "Free Software Foundation" in build.version(MADE) and " avx " in facts.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty cache, and no library in memory before or after."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    build.library.cache_clear()
    yield
    build.library.cache_clear()


def compiler(folder: Path, script: str) -> str:
    """A stand-in: prints a version where it is asked for one, and runs the script otherwise."""
    path = folder / "compiler"
    path.write_text(f'#!/bin/sh\ncase "$1" in --version) echo mine; exit;; esac\n{script}\n')
    path.chmod(0o755)
    return str(path)


@needs_one
def test_it_is_compiled_once_and_found_afterwards(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", compiler(tmp_path, f'echo >> "{tmp_path}/calls"\nexec "{MADE}" "$@"'))
    assert choose("cpp", torch.zeros(1)) == "cpp"
    build.library.cache_clear()
    assert choose("cpp", torch.zeros(1)) == "cpp"
    assert (tmp_path / "calls").read_text() == "\n"
    (made,) = (tmp_path / "cache" / "trainwreck").iterdir()  # nothing half-made beside it
    assert re.fullmatch(r"kernels-[0-9a-f]{16}\.so", made.name)


@pytest.mark.skipif(not has_vectors_of_eight(), reason="needs GCC, which alone says it, and AVX")
def test_no_vector_is_longer_than_a_register(tmp_path):
    """Of one that is GCC makes single numbers: the kernels took up to four times as long on a processor with AVX2."""
    home = Path(str(files("trainwreck.kernels.cpp")))
    flags = [flag for flag in build.FLAGS if flag != "-O3"]
    sources = [home / name for name in build.SOURCES]
    finished = subprocess.run(
        [MADE, *flags, "-Wvector-operation-performance", *sources, "-o", tmp_path / "kernels.so"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert finished.stderr == ""


@needs_one
def test_another_compiler_has_a_library_of_its_own(tmp_path):
    assert build.cached(MADE) != build.cached(compiler(tmp_path, ""))


@pytest.mark.parametrize(
    ("named", "line"),
    [
        ("no-such", "no C++ compiler (no-such) is installed"),
        (None, "no C++ compiler (c++, g++, clang++) is installed"),
    ],
)
def test_without_a_compiler_it_is_refused_in_one_line(named, line, monkeypatch):
    monkeypatch.setenv("PATH", "")
    if named:
        monkeypatch.setenv("CXX", named)
    wanted = re.escape(f"impl: 'cpp' is not allowed here: {line}; allowed: reference")
    with pytest.raises(InputError, match=f"^{wanted}$"):
        backend("cpu", "cpp")


def test_an_error_of_the_compiler_is_told_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", compiler(tmp_path, "echo 'first: wrong' >&2; echo second >&2; exit 1"))
    with pytest.raises(ValueError, match=r"^impl: 'cpp' is not allowed here: [^\n]* can't be built: first: wrong; "):
        choose("cpp", torch.zeros(1))
    assert list((tmp_path / "cache" / "trainwreck").iterdir()) == []


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write anywhere")
def test_a_cache_that_may_not_be_written_is_told_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir(mode=0o500)
    monkeypatch.setenv("CXX", compiler(tmp_path, ""))
    with pytest.raises(ValueError, match=r"^impl: 'cpp' is not allowed here: [^\n]*Permission denied[^\n]*$"):
        choose("cpp", torch.zeros(1))


@needs_one
def test_it_takes_floats_of_a_cpu_and_leaves_other_formats_to_the_reference():
    assert backend(None, "cpp") == Backend("cpu", "cpp")
    chosen = {dtype: choose("cpp", torch.zeros(1, dtype=dtype)) for dtype in (torch.float16, torch.float64)}
    assert set(chosen.values()) == {"reference"}
    assert choose("cpp", torch.zeros(1, dtype=torch.bfloat16)) == "cpp"
    with pytest.raises(
        ValueError, match=r"^impl: 'cpp' is not allowed for a tensor on meta; allowed: reference, or a CPU"
    ):
        choose("cpp", torch.zeros(1, device="meta"))
