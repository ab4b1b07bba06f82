"""Documentation that is generated is up to date, and links in the pages lead somewhere."""

import re
from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.schema import document
from trainwreck.evaluation.detectors.document import document as monitors
from trainwreck.evaluation.logs.document import document as names
from trainwreck.evaluation.logs.exporters import EXPORTERS
from trainwreck.evaluation.logs.readers import FORMATS

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


def test_every_line_of_the_constraints_pins_one_package():
    """A mark of a merge in it once stood until the set-up of a fresh machine failed on it."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [
        line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[A-Za-z0-9.+!]+( *;.*)?", line)
    ] == []
    names = [re.split(r"[\[=]", line)[0].lower() for line in pins]
    assert len(names) == len(set(names))
