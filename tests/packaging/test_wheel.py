"""The wheel, built offline from a copy: it holds the packages and nothing else, and works installed."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOMES = {folder: package.replace(".", "/") for package, folder in PROJECT["tool"]["setuptools"]["package-dir"].items()}


def source_files() -> list[str]:
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    for name in source_files():
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "source"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--disable-pip-version-check", "--target", str(folder), str(wheel)], check=True)
    return folder


def test_it_holds_every_file_of_the_packages_and_nothing_else(wheel):
    expected = set()
    for name in source_files():
        first, *rest = PurePosixPath(name).parts
        if first in HOMES:
            expected.add("/".join([HOMES[first], *rest]))
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == expected
    assert {"trainwreck/py.typed", "trainwreck/evaluation/pages/report/page.html.jinja"} <= inside


def test_it_declares_the_command_and_the_licence(wheel):
    archive = zipfile.ZipFile(wheel)
    entry = next(name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
    assert "trainwreck = trainwreck.cli:main" in archive.read(entry).decode()
    assert any(name.endswith("/licenses/LICENSE") for name in archive.namelist())


def python(installed: Path, *words: str, cwd: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_imports_from_the_installed_copy(installed, tmp_path):
    code = (
        "import importlib, json, pkgutil, trainwreck\n"
        "found = [m.name for m in pkgutil.walk_packages(trainwreck.__path__, 'trainwreck.')]\n"
        "print(json.dumps([importlib.import_module(n).__file__ for n in found if not n.endswith('__main__')]))"
    )
    files = json.loads(python(installed, "-c", code, cwd=tmp_path).splitlines()[-1])
    modules = [name for name in source_files() if name.endswith(".py") and PurePosixPath(name).parts[0] in HOMES]
    assert len(files) == len(modules) - 2  # trainwreck itself and __main__
    assert all(Path(file).is_relative_to(installed) for file in files)


def test_the_command_works_from_another_folder(installed, tmp_path):
    assert PROJECT["project"]["version"] in python(installed, "-m", "trainwreck", "--version", cwd=tmp_path)
    rows = json.loads(python(installed, "-m", "trainwreck", "list", "--json", cwd=tmp_path))
    entries = [
        name
        for name in source_files()
        if PurePosixPath(name).match("scenarios/catalogue/*/*.py") and not name.endswith("__init__.py")
    ]
    assert len(rows) == len(entries)
