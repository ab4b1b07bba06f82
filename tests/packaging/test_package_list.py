"""The declared packages, scripts and data files are those on disk."""

import subprocess
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
HOMES = {folder: package for package, folder in SETUPTOOLS["package-dir"].items()}  # top-level folder to package


def repository_files() -> list[PurePosixPath]:
    """Every file that is or could be committed."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
    return [PurePosixPath(name) for name in names if name and (ROOT / name).is_file()]


def package_of(folder: PurePosixPath) -> str:
    return ".".join([HOMES[folder.parts[0]], *folder.parts[1:]])


def packaged() -> list[PurePosixPath]:
    return [file for file in repository_files() if file.parts[0] in HOMES]


def test_every_folder_with_python_is_declared_and_no_other():
    on_disk = {package_of(file.parent) for file in packaged() if file.suffix == ".py"}
    assert sorted(on_disk) == sorted(SETUPTOOLS["packages"])


def test_no_package_is_declared_twice():
    assert len(set(SETUPTOOLS["packages"])) == len(SETUPTOOLS["packages"])


def test_every_package_has_an_init():
    with_init = {package_of(file.parent) for file in packaged() if file.name == "__init__.py"}
    assert with_init == set(SETUPTOOLS["packages"])


def test_python_lies_nowhere_else_but_in_tests_and_in_what_makes_the_documents():
    folders = {file.parts[0] for file in repository_files() if file.suffix == ".py"}
    assert folders == {*HOMES, "docs", "tests"}


def declared(file: PurePosixPath) -> bool:
    """Whether a pattern of the innermost package around a file, relative to that package's folder, has it."""
    home = next(folder for folder in file.parents if package_of(folder) in SETUPTOOLS["packages"])
    patterns = SETUPTOOLS["package-data"].get(package_of(home), [])
    inside = file.relative_to(home)
    return any(len(PurePosixPath(p).parts) == len(inside.parts) and inside.match(p) for p in patterns)


def test_every_data_file_is_declared():
    others = [file for file in packaged() if file.suffix != ".py"]
    undeclared = [str(file) for file in others if not declared(file)]
    assert not undeclared
    assert PurePosixPath("trainwreck/py.typed") in others


@pytest.mark.parametrize("name", PROJECT["project"]["scripts"])
def test_every_script_resolves(name):
    assert callable(EntryPoint(name, PROJECT["project"]["scripts"][name], "console_scripts").load())


def test_no_file_names_a_place_of_one_machine():
    places = tuple("/" + place + "/" for place in ("work", "tmp", "root", "home"))
    found = []
    for file in repository_files():
        try:
            text = (ROOT / file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{file}: {place}" for place in places if place in text]
    assert not found


@pytest.mark.parametrize(("list_of", "least"), [("check", 50), ("long", 10)])
def test_every_test_of_a_list_is_there(list_of, least):
    listed = (ROOT / "tests" / f"{list_of}.txt").read_text(encoding="utf-8").split()
    assert len(listed) > least
    assert not [name for name in listed if not (ROOT / name.partition("::")[0]).exists()]
