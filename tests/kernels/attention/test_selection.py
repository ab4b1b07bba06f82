"""Which implementation runs: by one rule, as asked, and without loading what is not asked for."""

import json
import os
import re
import subprocess
import sys
from functools import cache

import pytest
import torch

from trainwreck.kernels.attention import VARIANTS, Mask, api, attention, choose, load_variant

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.mark.parametrize("dtype", api.DTYPES)
def test_the_rule_is_triton_on_cuda_but_for_float64(dtype: torch.dtype) -> None:
    assert choose(CPU, dtype) == "reference"
    assert choose(CUDA, dtype) == ("reference" if dtype == torch.float64 else "triton")


@pytest.mark.parametrize(("impl", "device"), [("reference", CPU), ("triton", CPU), (None, CPU), (None, CUDA)])
def test_what_is_asked_or_what_the_rule_says_is_loaded(
    impl: str | None, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(
        api, "load_variant", lambda name, impl: asked.append((name, impl)) or load_variant(name, "reference")
    )
    monkeypatch.setattr(api, "choose", lambda _, dtype: choose(device, dtype))
    x = torch.zeros(1, 1, 1, 2, 16)
    attention(x, x, x, mask=Mask(), scale_N=torch.ones(1), impl=impl, variant="mask_zeroed")
    assert asked[:1] == [("mask_zeroed", impl or choose(device, x.dtype))]


def test_a_variant_loads_its_own_module_and_no_other_variants() -> None:
    names = ["reference", *api.KERNEL_VARIANTS, *api.ARGUMENT_VARIANTS]
    code = (
        "import sys\nfrom trainwreck.kernels.attention import load_variant\nnew = {}\n"
        f"for name in {names}:\n"
        "    before = set(sys.modules)\n    load_variant(name)\n    new[name] = sorted(set(sys.modules) - before)\n"
        "import json\nprint(json.dumps(new))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    new = json.loads(done.stdout.splitlines()[-1])
    for name in names:
        variants = {module.rpartition(".")[2] for module in new[name]} & set(VARIANTS)
        assert variants <= {name}
        assert not any("triton" in module for module in new[name])


@cache
def loaded(code: str) -> set[str]:
    """Modules that a fresh interpreter has loaded after the code."""
    report = "\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_training_on_the_reference_path_never_loads_triton() -> None:
    code = (
        "import trainwreck.kernels.attention\n"
        "from trainwreck.scenarios.job import Job\n"
        "from trainwreck.scenarios.loop import train\n"
        "from trainwreck.scenarios.settings import replaced\n"
        "from trainwreck.scenarios.sizes import Size, healthy\n"
        "train([Job('run', 0, replaced(healthy(Size.MICRO), steps=1))])"
    )
    names = loaded(code)
    assert "trainwreck.kernels.attention.reference" in names
    assert not any(name == "triton" or name.startswith("triton.") for name in names)
    assert not any("kernels.attention.triton" in name for name in names)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=False
    )


CALL = (
    "import torch\nfrom trainwreck.kernels.attention import Mask, attention\nx = torch.zeros(1, 1, 1, 2, 16)\n"
    "attention(x, x, x, mask=Mask(), scale_N=torch.ones(1), impl='triton')"
)


def test_tensors_on_the_cpu_are_refused_where_kernels_are_compiled() -> None:
    done = run(CALL)
    line = "ValueError: q: device cpu is not allowed with impl 'triton'; allowed: cuda"
    assert done.stderr.splitlines()[-1] == line


def test_without_triton_asking_for_it_is_refused_in_one_line() -> None:
    done = run("import sys\nsys.modules['triton'] = None\n" + CALL)
    line = "ValueError: impl: 'triton' is not allowed without the package triton; allowed: 'reference'"
    assert re.fullmatch(re.escape(line), done.stderr.splitlines()[-1])
