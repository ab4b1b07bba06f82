"""The pages of the site: one a scenario, with family and references, and no link that leads nowhere."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from trainwreck.scenarios import shapes
from trainwreck.scenarios.config.settings import Setup, leaves
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.views.page import recorded

ROOT = Path(__file__).resolve().parents[2]
MAKE = ROOT / "docs" / "site" / "make.py"
LINK = re.compile(r"(?:\]\(|^\[[^\]]+\]: )(?!https?:|mailto:)([^)\s]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The folder that `make.py --pages` writes, which needs no site generator."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    subprocess.run([sys.executable, str(MAKE), "--pages", str(folder)], check=True, capture_output=True)
    return folder


def without_code(page):
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", page, flags=re.M | re.S)


@cache
def anchors(path):
    """Anchors that a page sets itself, and those that headings get."""
    page = path.read_text(encoding="utf-8")
    found = re.findall(r"^#+ (.*)$", page, re.M)
    headings = {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in found}
    return {*headings, *re.findall(r'<a id="([^"]+)"', page), *re.findall(r"\{ #(\S+) \}", page)}


def test_every_scenario_has_a_page_with_its_family_and_its_references(pages):
    references = (pages / "catalogue" / "references.md").read_text(encoding="utf-8")
    known = anchors(pages / "catalogue" / "references.md")
    for id, entry in scenarios().items():
        (path,) = pages.glob(f"catalogue/*/{id}.md")
        page = path.read_text(encoding="utf-8")
        family = (path.parent / "index.md").read_text(encoding="utf-8")
        assert f"| family | [{entry.family_name}](index.md) |" in page
        assert f"[`{id}`]({id}.md)" in family
        cited = re.findall(r"\(\.\./references\.md#([^)]+)\)", page)
        assert cited
        assert set(cited) <= known
        assert f"[`{id}`]({path.relative_to(pages / 'catalogue').as_posix()})" in references
        assert all(f"## {section}\n" in page for section in entry.page())
        assert "## Proof" in page
        assert "## Setup\n" in page
        assert re.search(r"^## Lines that the (fault|deviation) changes$", page, re.M)
        shown = re.search(r"^```diff\n(.*?)\n```$", page, re.M | re.S)
        assert (shown[1].splitlines() if shown else []) == recorded().get(id, [])


def test_every_work_that_is_cited_is_known(pages):
    """A citation that is no link was not understood: neither a document nor a name with a year."""
    plain = {}
    for path in pages.glob("catalogue/*/*.md"):
        found = re.search(r"^## References\n\n(.*?)(?:\n\n|\Z)", path.read_text(encoding="utf-8"), re.M | re.S)
        for line in found[1].splitlines() if found else ():
            if not line.startswith("- ["):
                plain.setdefault(path.stem, []).append(line)
    assert plain == {}


def test_no_link_leads_nowhere(pages):
    dead, seen = [], 0
    for path in pages.rglob("*.md"):
        for target in LINK.findall(without_code(path.read_text(encoding="utf-8"))):
            file, _, anchor = target.partition("#")
            to = Path(os.path.normpath(path.parent / file)) if file else path
            seen += 1
            reachable = to.is_file() and pages in to.parents
            if reachable and anchor and to.suffix == ".md":
                reachable = anchor in anchors(to)
            if not reachable:
                dead.append(f"{path.relative_to(pages)}: {target}")
    assert seen > 1000
    assert dead == []


def test_the_vocabulary_has_every_shape_with_its_picture(pages):
    page = (pages / "vocabulary.md").read_text(encoding="utf-8")
    assert "&#124;" not in without_code(page), "a line of a drawing outside of its fence"
    assert page.count("```text") >= 20
    for name in ("creeps_before", "spikes_and_recovers", "flat_over_position"):
        assert hasattr(shapes, name)
        assert f"## {name} {{ #{name} }}" in page
    users = re.search(r"## creeps_before .*?Used by (.*?)\.\n", page, re.S)[1]
    assert "`high_lr`" in users


def test_every_setting_is_on_its_page_with_what_is_allowed(pages):
    page = (pages / "settings.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w.]+)` \|", page.partition("## Sizes")[0], re.M))
    assert listed == set(leaves(Setup()))
    assert "| `dropout` | `0` | a number, 0 to 0.95 |" in page
    assert "| `optimizer.clip` | `1` | a number, over 0 to 1e+12, or null |" in page
    assert "| `schedule.decay` | `cosine` | `cosine`, `linear`, `constant`, `wsd` |" in page


def test_lessons_are_read_without_their_answers(pages):
    lessons = "reading_curves numerics attention_and_position data_and_resume save_the_run rewards"
    for name in lessons.split():
        page = (pages / "docs" / "lessons" / f"{name}.md").read_text(encoding="utf-8")
        fill = [line for line in page.splitlines() if line.endswith("# fill in")]
        assert fill
        assert all("..." in line for line in fill)
        assert "**Answer.**" not in page
        assert f"({name}.ipynb)" in page


def test_pages_are_not_written_over_something(tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    command = [sys.executable, str(MAKE), "--pages", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--pages" in done.stderr
    assert "allowed: an empty or a new folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
