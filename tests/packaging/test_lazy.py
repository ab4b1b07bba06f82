"""What must start at once loads nothing heavy."""

import json
import pkgutil
import subprocess
import sys

import pytest

from trainwreck import evaluation

HEAVY = ("torch", "pandas", "hydra", "omegaconf", "matplotlib", "pyarrow", "numpy", "scipy", "rich", "jinja2")
REPORT = f"\nimport json, sys\nprint(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"


def loaded(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after the code."""
    done = subprocess.run([sys.executable, "-c", code + REPORT], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def command(*words: str) -> str:
    return (
        f"import sys\nsys.argv = ['trainwreck', *{words!r}]\nfrom trainwreck.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )


@pytest.mark.parametrize("words", [("--help",), ("score", "--help"), ("generate", "--help"), ("--version",)], ids=str)
def test_help_loads_nothing(words):
    assert loaded(command(*words)) == set()


def test_help_loads_no_command():
    code = command("--help") + "\nassert not [name for name in sys.modules if name.startswith('trainwreck.commands')]"
    assert loaded(code) == set()


def test_importing_the_package_loads_nothing():
    assert loaded("import trainwreck\nimport trainwreck.scenarios") == set()


def test_listing_needs_neither_pandas_nor_hydra_nor_matplotlib():
    assert not loaded(command("list", "--json")) & {"pandas", "hydra", "omegaconf", "matplotlib"}


def test_no_module_of_evaluation_loads_torch_or_hydra():
    names = [module.name for module in pkgutil.walk_packages(evaluation.__path__, "trainwreck.evaluation.")]
    assert len(names) > 30
    found = loaded("\n".join(f"import {name}" for name in names))
    assert "numpy" in found  # the question can be answered with yes
    assert not found & {"torch", "hydra", "omegaconf", "matplotlib"}


def test_the_names_of_the_interface_load_no_torch():
    names = ("load", "score", "leaderboard", "Detector", "Scorecard", "DataSet", "InputError", "Verdict")
    assert "torch" not in loaded("import trainwreck\n" + "\n".join(f"trainwreck.{name}" for name in names))
