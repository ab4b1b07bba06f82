"""`models` and the like are names inside trainwreck and nowhere else; a user may have folders called so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("kernels", "models", "scenarios", "evaluation")


def python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("cwd", [ROOT, ROOT / "tests"], ids=["root", "tests"])
def test_folders_are_no_packages_under_pytest(cwd, tmp_path):
    probe = tmp_path / "test_probe.py"
    probe.write_text(
        "from importlib.util import find_spec\n"
        "def test_probe():\n"
        f"    assert [name for name in {FOLDERS!r} if find_spec(name)] == []\n"
        f"    assert all(find_spec('trainwreck.' + name) for name in {FOLDERS!r})\n",
        encoding="utf-8",
    )
    config = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
    # -P leaves out the current folder, as the `pytest` command does.
    done = python("-P", "-m", "pytest", *config, "-q", str(probe), cwd=cwd)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.fixture
def workplace(tmp_path):
    """A user's folder with packages of the names that the repository has."""
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OWNER = 'user of {name}'\n", encoding="utf-8")
    return tmp_path


def test_a_users_folders_do_no_harm(workplace):
    done = python("-m", "trainwreck", "list", "--json", cwd=workplace)
    assert done.returncode == 0, done.stderr
    assert "high_lr" in {row["id"] for row in json.loads(done.stdout)}


def test_a_users_folders_stay_importable(workplace):
    code = (
        "import json, models, kernels, evaluation, scenarios, trainwreck\n"
        "import trainwreck.models.gpt, trainwreck.scenarios.spec.run_spec\n"
        "print(json.dumps([m.OWNER for m in (kernels, models, scenarios, evaluation)]))"
    )
    done = python("-c", code, cwd=workplace)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [f"user of {name}" for name in FOLDERS]
