"""Documentation that is generated is up to date, and links in the pages lead somewhere."""

import ast
import re
import tomllib
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

import trainwreck
from trainwreck.evaluation.dataset.dataset import load_labels
from trainwreck.evaluation.dataset.schema import document
from trainwreck.evaluation.detectors.document import document as monitors
from trainwreck.evaluation.detectors.registry import builtin_detectors, missing_detectors
from trainwreck.evaluation.logs.document import document as names
from trainwreck.evaluation.logs.exporters import EXPORTERS
from trainwreck.evaluation.logs.readers import FORMATS
from trainwreck.scenarios.preflight import checks
from trainwreck.scenarios.spec.proofs import unproven

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]


def test_schema_page_is_the_schema():
    assert (ROOT / "docs" / "schema.md").read_text(encoding="utf-8") == document()


def test_the_page_of_detectors_is_what_they_say_of_themselves():
    assert (ROOT / "docs" / "monitors.md").read_text(encoding="utf-8") == monitors()


def test_the_page_of_logs_has_every_format_and_name():
    page = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
    assert names() in page
    assert all(f"| `{name}` |" in page for name in (*FORMATS, *EXPORTERS))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!http|#)([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    missing = [target for target in targets if not ((ROOT / page).parent / target).exists()]
    assert not missing


def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def board_rows(text):
    """The rows of the README's leaderboard: rank, detector, and the numbers as they are printed."""
    return re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", text, re.M)


def test_the_readme_is_short():
    assert len(readme().splitlines()) <= 120


def test_the_counts_of_the_readme_are_those_of_the_registries():
    kinds = Counter("look-alike" if entry.look_alike else "failing" for entry in trainwreck.scenarios().values())
    families = len({entry.family_name for entry in trainwreck.scenarios().values()})
    assert f"**{sum(kinds.values())} scenarios** in {families} families: {kinds['failing']} failures, and " in readme()
    assert f"and {kinds['look-alike']} look-alikes" in readme()
    detectors = {*builtin_detectors(), *missing_detectors()}
    assert f"**{len(detectors)} detectors**" in readme()
    assert f"{len(trainwreck.load(trainwreck.sample()).runs)} runs ship with the package" in readme()
    mechanisms = re.findall(r"\| (yes|no) \|$", (ROOT / "results/fidelity/README.md").read_text(encoding="utf-8"), re.M)
    assert f"{mechanisms.count('no')} of {len(mechanisms)} mechanisms did not agree" in readme()
    assert f"{len(unproven())} documented failures" in (ROOT / "docs/results.md").read_text("utf-8")


def test_the_leaderboard_of_the_readme_is_the_committed_one():
    boards = {
        name: pd.read_csv(ROOT / "results" / name / "board" / "leaderboard.csv")
        for name in ("standard", "wild", "public-logs")
    }
    (profile,) = {name for name in boards["standard"]["profile"].unique() if f"profile `{name}`" in readme()}
    boards["standard"] = boards["standard"][boards["standard"]["profile"] == profile]
    boards = {name: board.set_index("detector") for name, board in boards.items()}
    entries = boards["standard"]
    columns = (
        *((name, "recall_0.05") for name in boards),
        *(("standard", f"stopped{of}_0.05") for of in ("", "_look_alike")),
    )
    rows = board_rows(readme())
    assert [name for _, name, _ in rows][-1] == "random"
    assert len(rows) >= 5
    for rank, name, numbers in rows:
        spans = [
            "{:.2f} [{:.2f}, {:.2f}]".format(*(boards[of].loc[name, f"{at}{end}"] for end in ("", "_low", "_high")))
            for of, at in columns
        ]
        assert (int(rank), numbers.split(" | ")) == (int(entries.loc[name, "rank"]), spans)
    others = entries[entries["rank"].notna()].sort_values(["rank", "recall_0.05"], ascending=[True, False])
    assert [name for _, name, _ in rows][:3] == list(others.index[:3])


def test_the_runs_of_the_readme_are_those_of_the_board():
    labels = load_labels(ROOT / "results" / "standard")
    runs = labels.runs
    test = runs[runs["split"] == "test"]
    kinds = test["kind"].value_counts()
    failing = test[test["kind"].isin(["failing", "compound"])]["visible_step"].notna().sum()
    counts = f"{failing} failing, {kinds['healthy']} healthy and {kinds['look-alike']} look-alike"
    assert counts in readme().replace("\n", " ")
    assert f"**{len(runs):,} labelled runs**" in readme()
    assert f"frozen on {(runs['split'] == 'calibration').sum()} calibration runs" in readme()


def test_the_citation_has_the_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\nlicense: {project['license']}\n" in citation


def test_the_page_of_preflight_has_every_check():
    page = (ROOT / "docs" / "preflight.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) == set(checks())


@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md"])
def test_modules_that_a_page_names_are_there(page):
    """`folder/module.py`, `folder/` and `folder/module.py:Class.method`, from the root of the repository."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:evaluation|scenarios|models|kernels|trainwreck)/[\w/]*(?:\.py)?)(?::([\w.]+))?`", text)
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    missing = [f"{path}:{name}" for path, name in named if name and name not in defined(ROOT / path)]
    assert missing == []


def defined(path):
    """Functions and classes of a module, and methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names.add(getattr(node, "name", ""))
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


def test_architecture_names_every_room():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = [
        f"{top}/{folder.name}/"
        for top in ("kernels", "scenarios", "evaluation")
        for folder in sorted((ROOT / top).iterdir())
        if (folder / "__init__.py").exists() and folder.name not in ("sample",)
    ]
    assert [room for room in rooms if f"`{room}`" not in page] == []
    assert len(re.findall(r"`\S+\.py:\S+`", page)) >= 15


def test_every_line_of_the_constraints_pins_one_package():
    """A mark of a merge in it once stood until the set-up of a fresh machine failed on it."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [
        line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[A-Za-z0-9.+!]+( *;.*)?", line)
    ] == []
    names = [re.split(r"[\[=]", line)[0].lower() for line in pins]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")))
def test_what_a_page_imports_is_there(page):
    """Lessons among them, which run only with `make lessons`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = []
    for module, imported in re.findall(r"^from (trainwreck[\w.]*) import ([\w, ]+)$", text, re.MULTILINE):
        home = import_module(module)
        for name in (name.split(" as ")[0].strip() for name in imported.split(",")):
            if not hasattr(home, name) and find_spec(f"{module}.{name}") is None:
                missing.append(f"{module}.{name}")
    assert missing == []
