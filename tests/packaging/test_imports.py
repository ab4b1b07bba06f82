"""Imports go one way: kernels, models, scenarios; evaluation apart from them and without torch."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {
    "kernels": {"kernels"},
    "models": {"kernels", "models"},
    "evaluation": {"evaluation"},
    "scenarios": {"kernels", "models", "evaluation", "scenarios"},
}
HEAVY = {"torch", "triton", "safetensors"}
HYDRA = {"hydra", "omegaconf"}
HYDRA_HOME = "scenarios/spec/overrides.py"


def imported(source: str, package: str) -> set[str]:
    """Full names of what a module of `package` imports, at any depth of the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def violations(file: str, source: str) -> list[str]:
    """What a file, named from the repository's root, must not import."""
    layer, *inner = Path(file).with_suffix("").parts
    package = ".".join(["trainwreck", layer, *inner[:-1]])
    wrong = []
    for name in sorted(imported(source, package)):
        first, _, rest = name.partition(".")
        own = rest.partition(".")[0]
        if first == "trainwreck" and layer in LAYERS and own not in LAYERS[layer]:
            wrong.append(name)
        if first in {"tests", *LAYERS}:  # by the folder's own name, which is no package's
            wrong.append(name)
        if layer == "evaluation" and first in HEAVY:
            wrong.append(name)
        if first in HYDRA and file != HYDRA_HOME:
            wrong.append(name)
    return wrong


FILES = sorted(
    str(path.relative_to(ROOT).as_posix()) for top in (*LAYERS, "trainwreck") for path in (ROOT / top).rglob("*.py")
)


@pytest.mark.parametrize("file", FILES)
def test_imports_go_one_way(file):
    assert violations(file, (ROOT / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("kernels/random.py", "from trainwreck.models import gpt"),
        ("kernels/random.py", "from trainwreck import evaluation"),
        ("kernels/attention/api.py", "from ...models.config import Init"),
        ("models/gpt.py", "import trainwreck.scenarios.training.loop"),
        ("models/gpt.py", "from trainwreck.evaluation.errors import InputError"),
        ("scenarios/shapes.py", "def f():\n    import torch"),
        ("scenarios/shapes.py", "from torch import nn"),
        ("evaluation/detectors/mine.py", "from trainwreck.scenarios.spec.run_spec import Role"),
        ("evaluation/files.py", "from ..kernels import random"),
        ("scenarios/training/loop.py", "from trainwreck.cli import main"),
        ("scenarios/training/loop.py", "import trainwreck"),
        ("scenarios/training/loop.py", "from evaluation import schema"),
        ("scenarios/spec/run_spec.py", "from hydra import compose"),
        ("trainwreck/cli.py", "def f():\n    from omegaconf import OmegaConf"),
    ],
)
def test_a_wrong_import_is_found(file, source):
    assert violations(file, source)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("scenarios/spec/overrides.py", "from hydra import compose"),
        ("scenarios/training/loop.py", "from trainwreck.kernels.random import generator"),
        ("models/gpt.py", "from trainwreck.kernels import attention"),
        ("evaluation/files.py", "from .errors import InputError"),
        ("trainwreck/cli.py", "from trainwreck.scenarios import proof"),
    ],
)
def test_a_right_import_is_not(file, source):
    assert violations(file, source) == []
