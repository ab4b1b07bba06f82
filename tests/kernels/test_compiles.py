"""Triton's own compiler takes the kernels and makes wide loads of them; it needs no GPU for that."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    pytest.importorskip("triton")
    # In a process of its own: in this one the kernels may have been loaded for the interpreter.
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    script = Path(__file__).with_name("compile_fused.py")
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_kernel_compiles_for_every_format(lines):
    kernels = {line.split()[0] for line in lines}
    assert kernels == {
        "chunk_statistics", "gather_chunks", "chunk_ratios", "gather_ratios", "rotate", "losses", "gradient",
        "bucket_sums", "normalise", "normalise_back", "gelu_forward", "gelu_backward", "describe_chunks",
        "gather_described",
    }  # fmt: skip
    for kernel in ("chunk_statistics", "rotate", "losses", "gradient", "gelu_forward", "gelu_backward"):
        assert {line.split()[1] for line in lines if line.startswith(kernel)} == {"*fp32", "*bf16", "*fp16"}


@pytest.mark.parametrize(
    "kernel", ["chunk_statistics", r"rotate .*'K': (?:64|128)", r"(?:losses|gradient) .*'V': (?:64|4096|50304)\b"]
)
def test_memory_is_moved_16_bytes_at_a_time(lines, kernel):
    found = [line for line in lines if re.match(kernel, line)]
    assert found
    assert not [line for line in found if " 0 wide" in line]


@pytest.mark.parametrize(
    "name",
    ["attention.triton.forward", "attention.triton.parts", "cross_entropy.triton", "norms.triton", "units.triton"],
)
def test_no_constant_is_nan(name):
    """Triton asks at each launch whether a constant is what it was, which a NaN never is: no second launch."""
    language = pytest.importorskip("triton.language")
    module = import_module(f"trainwreck.kernels.{name}")
    constants = {key: x.value for key, x in vars(module).items() if isinstance(x, language.constexpr)}
    assert constants
    assert not [key for key, value in constants.items() if value != value]
