"""The lessons as notebooks, for learners and with answers, out of one readable source each.

    python docs/lessons/notebooks.py          # writes docs/lessons/*.ipynb and docs/lessons/answers/*.ipynb

A source is a page of Markdown: what a reviewer reads is text, and both notebooks say the same. Its fences:

    ```python            a code cell
    ```python exercise   a code cell; of a line that ends with `# fill in`, the learner gets `...` for the value
    ```python answers    a code cell of the answers alone
    ```answer            text of the answers alone

The rest is text cells, one a heading. Notebooks have no outputs, and the same source gives the same bytes.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
SOURCES = FOLDER / "sources"
FENCE = re.compile(r"^```(?P<kind>python exercise|python answers|python|answer)\n(?P<text>.*?)^```$\n?", re.M | re.S)
FILL = re.compile(r'^(?P<left>\s*(?:return\b|\w+ =|"[^"]*":)) (?P<value>.+?)(?P<comma>,?)  # fill in$')
KINDS = {"python": "code", "python exercise": "exercise", "python answers": "solution", "answer": "answer"}


class SourceError(ValueError):
    """A lesson's source is wrong; the message names file and line."""


@dataclass(frozen=True)
class Cell:
    """kind: text, code, exercise (code with lines to fill in), solution (code of the answers) or answer (text)."""

    kind: str
    text: str


def cells(source: Path) -> list[Cell]:
    """The cells of a source in order, exercises filled in. Raises SourceError for a fence that is not closed."""
    page, found, end = source.read_text(encoding="utf-8"), [], 0
    for fence in FENCE.finditer(page):
        found += _texts(page[end : fence.start()])
        found.append(Cell(KINDS[fence["kind"]], fence["text"].rstrip("\n")))
        end = fence.end()
    found += _texts(page[end:])
    for cell in found:
        if cell.kind == "text" and "```" in cell.text:
            line = page[: page.index(cell.text)].count("\n") + 1 + cell.text[: cell.text.index("```")].count("\n")
            raise SourceError(f"{source.name}:{line}: a fence that is not known or not closed")
    return found


def _texts(text: str) -> list[Cell]:
    parts = re.split(r"^(?=#+ )", text, flags=re.M)
    return [Cell("text", part.strip()) for part in parts if part.strip()]


def blanked(code: str) -> str:
    """An exercise as the learner gets it: `...` for the value of each line to fill in."""
    lines = []
    for line in code.splitlines():
        found = FILL.match(line)
        if line.endswith("# fill in") and not found:
            raise SourceError(f"{line.strip()!r}: nothing to fill in; allowed: NAME = VALUE, KEY: VALUE, return VALUE")
        lines.append(f"{found['left']} ...{found['comma']}  # fill in" if found else line)
    return "\n".join(lines)


def notebook(source: Path, *, answers: bool) -> dict[str, Any]:
    """A notebook of format 4.5, without outputs."""
    made = []
    for number, cell in enumerate(cells(source)):
        kind, text = cell.kind, cell.text
        if kind in ("solution", "answer") and not answers:
            continue
        if kind == "exercise" and not answers:
            text = blanked(text)
        if kind == "answer":
            text = f"**Answer.** {text}"
        if number == 0 and answers:
            text = re.sub(r"\A(# .*)$", r"\1: with answers", text, flags=re.M)
        code = kind in ("code", "exercise", "solution")
        made.append(
            {"cell_type": "code" if code else "markdown"}
            | ({"execution_count": None} if code else {})
            | {"id": f"{source.stem.replace('_', '-')}-{number:02d}", "metadata": {}}
            | ({"outputs": []} if code else {})
            | {"source": text.splitlines(keepends=True)}
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def files() -> dict[Path, str]:
    """Each notebook's path to its content."""
    made = {}
    for source in sorted(SOURCES.glob("*.md")):
        for path, answers in ((FOLDER, False), (FOLDER / "answers", True)):
            content = json.dumps(notebook(source, answers=answers), indent=1, ensure_ascii=True) + "\n"
            made[path / f"{source.stem}.ipynb"] = content
    return made


if __name__ == "__main__":
    for path, content in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
