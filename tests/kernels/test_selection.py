"""The one rule that chooses an implementation, and that only the chosen one is loaded."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainwreck.kernels import selection
from trainwreck.kernels.selection import TRITON_DTYPES, choose, interpreted


def tensor(device: str, dtype: torch.dtype) -> Any:
    """What the rule looks at; no such device is needed."""
    return SimpleNamespace(device=torch.device(device), is_cuda=device.startswith("cuda"), dtype=dtype)


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.mark.parametrize("dtype", [*TRITON_DTYPES, torch.float64])
def test_a_cpu_tensor_is_the_references_even_under_the_interpreter(dtype, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert choose(None, torch.zeros(1, dtype=dtype)) == "reference"


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", TRITON_DTYPES)
def test_a_cuda_tensor_is_tritons_in_the_formats_that_it_has(dtype):
    assert choose(None, tensor("cuda:1", dtype)) == "triton"
    assert choose("triton", tensor("cuda:1", dtype)) == "triton"


@pytest.mark.usefixtures("compiled")
def test_double_precision_is_the_references_and_never_tritons():
    assert choose(None, tensor("cuda", torch.float64)) == "reference"
    line = "impl: 'triton' is not allowed for torch.float64; allowed: reference, or one of torch.float16, "
    with pytest.raises(ValueError, match=f"^{re.escape(line)}[^\n]*$"):
        choose("triton", tensor("cuda", torch.float64))


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
def test_the_reference_runs_wherever_it_is_asked_for(device):
    assert choose("reference", tensor(device, torch.float32)) == "reference"


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_triton_out_of_reach_is_one_line_and_no_fallback(device):
    line = f"impl: 'triton' is not allowed for a tensor on {device}; allowed: reference, a CUDA tensor, or a CPU "
    with pytest.raises(ValueError, match=f"^{re.escape(line)}[^\n]*$"):
        choose("triton", tensor(device, torch.float32))


def test_the_interpreter_reaches_cpu_tensors(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert choose("triton", torch.zeros(1)) == "triton"


@pytest.mark.parametrize("value", ["1", "true", "ON", "0", "off", ""])
def test_the_interpreters_switch_is_read_as_triton_reads_it(value, monkeypatch):
    knobs = pytest.importorskip("triton.knobs")
    monkeypatch.setenv("TRITON_INTERPRET", value)
    assert interpreted() == knobs.runtime.interpret


@pytest.mark.parametrize("impl", ["", "Triton", "cuda"])
def test_an_unknown_name_is_refused(impl):
    with pytest.raises(ValueError, match=rf"^impl: '{impl}' is not allowed; allowed: reference, triton, cpp$"):
        choose(impl, torch.zeros(1))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("impl", [None, "triton"])
def test_without_the_package_cuda_tensors_need_the_reference_by_name(impl, monkeypatch):
    monkeypatch.setattr(selection, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^impl: 'triton' is not allowed without the package triton; allowed: "):
        choose(impl, tensor("cuda", torch.float32))
    assert choose("reference", tensor("cuda", torch.float32)) == "reference"


def test_a_training_step_on_the_reference_loads_no_triton():
    code = (
        "import sys\n"
        "from trainwreck.kernels import attention, cross_entropy, norms, rotary\n"
        "from trainwreck.scenarios.spec.job import Job\n"
        "from trainwreck.scenarios.training.loop import train\n"
        "from trainwreck.scenarios.config.settings import replaced\n"
        "from trainwreck.scenarios.config.sizes import Size, healthy\n"
        "train([Job('run', 0, replaced(healthy(Size.MICRO), steps=1))])\n"
        "assert 'triton' not in sys.modules\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
