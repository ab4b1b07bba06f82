"""Plain text as Markdown, and links between pages."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath


def escaped(text: str) -> str:
    """Text with every sign that Markdown or HTML would read marked as itself; code in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if index % 2 else re.sub(r"([\\*_\[\]<|#~])", _mark, part) for index, part in enumerate(parts))


def _mark(found: re.Match[str]) -> str:
    return {"<": "&lt;", "|": "&#124;", "~": "&#126;"}.get(found[1], "\\" + found[1])


def slug(text: str) -> str:
    """Text as the name of a file or an anchor: lower case, letters and digits, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def link(text: str, target: str, page: str) -> str:
    """A link on a page to another, both given from the root of the pages; `target` may have an #anchor."""
    file, _, anchor = target.partition("#")
    path = os.path.relpath(file, PurePosixPath(page).parent)
    return f"[{text}]({path}{'#' + anchor if anchor else ''})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; cells are Markdown already."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"
