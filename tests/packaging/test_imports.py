"""Imports go one way: between the four packages, between the rooms of each, and without a circle of modules."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {
    "kernels": {"kernels"},
    "models": {"kernels", "models"},
    "evaluation": {"evaluation"},
    "scenarios": {"kernels", "models", "evaluation", "scenarios"},
}
# The rooms of a package, the lowest first; a room imports those above it in this list, and never one below it.
ROOMS = {
    "evaluation": (
        ("constants", "errors"),
        ("extras", "files", "imports", "intervals", "progress", "short_forms"),
        ("dataset",),
        ("detectors",),
        ("replay",),
        ("labels", "scoring"),
        ("audits", "leaderboard", "learning"),
        ("pages", "release"),
        ("logs",),
        ("diagnosis", "live"),
    ),
    "scenarios": (
        ("config",),
        ("data",),
        ("spec", "shapes"),
        ("catalogue", "training"),
        ("datasets", "reproducers"),
        ("preflight", "proof", "rescue", "views"),
        ("bench",),
    ),
}
FLAT = 12  # modules that lie side by side in a folder, at most
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


def room(name: str) -> tuple[int, str] | None:
    """Height and name of the room of a module, `trainwreck.scenarios.spec.job`; None outside of all rooms."""
    _, top, own, *_ = [*name.split("."), "", ""]
    for height, side_by_side in enumerate(ROOMS.get(top, ())):
        if own in side_by_side:
            return height, own
    return None


def wrong_ways(file: str, source: str) -> list[str]:
    """What a file must not import, as it is of a room beside its own or below it in `ROOMS`."""
    package = ".".join(["trainwreck", *Path(file).parts[:-1]])
    here = room(".".join(["trainwreck", *Path(file).with_suffix("").parts]))
    found = []
    for name in sorted(imported(source, package)):
        other = room(name)
        own = name.split(".")[1:2] == [Path(file).parts[0]]
        if own and here and other and here[1] != other[1] and other[0] >= here[0]:
            found.append(name)
    return found


def modules() -> dict[str, Path]:
    """Every module of the four packages by its full name."""
    return {".".join(["trainwreck", *Path(file).with_suffix("").parts]): ROOT / file for file in FILES}


def arrows() -> dict[str, set[str]]:
    """Every module to the modules that it imports, packages' own `__init__` left out."""
    known = modules()
    graph = {}
    for name, path in known.items():
        names = imported(path.read_text(encoding="utf-8"), name.rpartition(".")[0])
        # `from a.b import c`: c is a module, or a name of module a.b
        graph[name] = {n if n in known else n.rpartition(".")[0] for n in names} & known.keys() - {name}
    return graph


FILES = sorted(
    str(path.relative_to(ROOT).as_posix()) for top in (*LAYERS, "trainwreck") for path in (ROOT / top).rglob("*.py")
)


@pytest.mark.parametrize("file", FILES)
def test_imports_go_one_way(file):
    assert violations(file, (ROOT / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("file", FILES)
def test_rooms_import_one_way(file):
    assert wrong_ways(file, (ROOT / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("top", ROOMS)
def test_every_room_has_its_place(top):
    named = {name for side_by_side in ROOMS[top] for name in side_by_side}
    python = {path.stem for path in (ROOT / top).iterdir() if path.suffix == ".py"} - {"__init__"}
    folders = {path.name for path in (ROOT / top).iterdir() if (path / "__init__.py").exists()}
    assert named == python | folders


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("scenarios/spec/job.py", "from trainwreck.scenarios.training import loop"),
        ("scenarios/config/bases/chains.py", "from trainwreck.scenarios.training.loop import train"),
        ("evaluation/dataset/trace.py", "from trainwreck.evaluation import replay"),
        ("evaluation/errors.py", "import trainwreck.evaluation.dataset.schema"),
    ],
)
def test_a_wrong_way_between_rooms_is_found(file, source):
    assert wrong_ways(file, source)


def test_no_circle_of_modules():
    try:
        TopologicalSorter(arrows()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_arrows_are_those_of_the_sources():
    graph = arrows()
    assert "trainwreck.scenarios.training.bundle" in graph["trainwreck.scenarios.training.loop"]
    assert sum(map(len, graph.values())) > 1000


def test_no_folder_has_more_modules_than_a_reader_sees_at_a_glance():
    counts = Counter(str(Path(file).parent) for file in FILES if Path(file).name != "__init__.py")
    families = {folder for folder in counts if folder.startswith("scenarios/catalogue/")}
    assert {folder: n for folder, n in counts.items() if n > FLAT and folder not in families} == {}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("kernels/random.py", "from trainwreck.models import gpt"),
        ("kernels/random.py", "from trainwreck import evaluation"),
        ("kernels/attention/api.py", "from ...models.config import Init"),
        ("models/gpt.py", "import trainwreck.scenarios.training.loop"),
        ("models/gpt.py", "from trainwreck.evaluation.errors import InputError"),
        ("evaluation/constants.py", "def f():\n    import torch"),
        ("evaluation/constants.py", "from torch import nn"),
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
