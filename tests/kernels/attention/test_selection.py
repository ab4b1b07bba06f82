"""Only the module of the variant and implementation that is asked for is loaded."""

import json
import os
import re
import subprocess
import sys
from functools import cache

from trainwreck.kernels.attention import VARIANTS


def test_a_variant_loads_its_own_module_and_no_other_variants() -> None:
    names = list(VARIANTS)
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
    line = "ValueError: impl: 'triton' is not allowed for a tensor on cpu; allowed: reference, a CUDA tensor, "
    assert done.stderr.splitlines()[-1].startswith(line)


def test_without_triton_asking_for_it_is_refused_in_one_line() -> None:
    done = run("import sys\nsys.modules['triton'] = None\n" + CALL, TRITON_INTERPRET="1")
    line = "ValueError: impl: 'triton' is not allowed without the package triton; allowed: reference"
    assert re.fullmatch(re.escape(line), done.stderr.splitlines()[-1])
