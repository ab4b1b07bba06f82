"""Examples in docstrings as code: Markdown would take `>>>` for a quotation. An extension of Griffe's."""

from typing import Any

import griffe


def fenced(text: str) -> str:
    """Text with a fence around each run of lines from `>>>` to the next empty line."""
    made: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        begins = line.lstrip().startswith(">>> ")
        if begins and not inside:
            made += ["", "```pycon"]
            inside = True
        if inside and not line.strip():
            made.append("```")
            inside = False
        made.append(line.strip() if inside and begins else line)
    return "\n".join(made).rstrip()


class Doctests(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **details: Any) -> None:
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)
