"""The known names as a table of docs/logs.md: `python -m trainwreck.evaluation.readers.document`."""

from trainwreck.evaluation.readers.names import SYNONYMS


def document() -> str:
    """Markdown; a test holds that the page has it."""
    lines = ["| signal | names, the first that a log has is taken |", "|---|---|"]
    for signal, names in SYNONYMS.items():
        shown = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
        lines.append(f"| `{signal}` | {shown}{', `lr-AdamW` and the like' if signal == 'lr' else ''} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
