"""What this machine can run."""

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

from trainwreck.evaluation.detectors.plugins import plugins
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.kernels.cpp import build
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.training.environment import cores, environment, half_products, processor_flags


def examine() -> dict[str, Any]:
    """Versions, processors, accelerators, and what each makes possible."""
    facts = environment()
    supported = (3, 11) <= sys.version_info[:2] <= (3, 13)
    native_bf16 = bool({"avx512_bf16", "amx_bf16"} & processor_flags())
    accelerated = facts["gpus"] and find_spec("triton")
    return facts | {
        "cores": cores(),
        "python_supported": "yes" if supported else "no: 3.11 to 3.13",
        "devices": "cpu, with reference kernels" + ("; cuda, with triton kernels" if accelerated else ""),
        "triton": "installed" if find_spec("triton") else "not installed (extra: gpu)",
        "cpp": _compiler(),
        "bf16": "native" if native_bf16 else "emulated, slow",
        "fp16": half_products("cuda" if accelerated else "cpu"),
        "scenarios": f"{len(scenarios())} loaded",
        "detectors": f"{len(builtin_detectors())} built in",
        "detector_plugins": ", ".join(name for name in plugins() if ":" in name) or "none installed",
    }


def _compiler() -> str:
    """What the C++ kernels would be built with."""
    try:
        return build.version(build.compiler()).splitlines()[0]
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        return str(error)
