"""The known names as a table of docs/logs.md: `python -m trainwreck.evaluation.logs.document`."""

from trainwreck.evaluation.logs.names import SYNONYMS


def document() -> str:
    """Markdown; a test holds that the page has it."""
    lines = ["| signal | names | with these before or after | besides |", "|---|---|---|---|"]
    for signal, names in SYNONYMS.items():
        others = [*map(_quoted, names.others), *(["`lr-AdamW` and the like"] if signal == "lr" else [])]
        words = ", ".join(map(_quoted, names.words)) + ("" if names.alone else " (never alone)")
        lines.append(f"| `{signal}` | {', '.join(map(_quoted, names.names))} | {words} | {', '.join(others)} |")
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> str:
    return f"`{name}`"


if __name__ == "__main__":
    print(document(), end="")
