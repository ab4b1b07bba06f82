"""The card of a release: README.md with the YAML head that Hugging Face reads, written from a template."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from trainwreck.evaluation.leaderboard.columns import markdown
from trainwreck.evaluation.release.facts import LICENCE, LICENCE_TERMS, TAGS, Facts

# Classes of size as the hub names them: below the first number of rows, the first.
SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
    (1_000_000_000, "100M<n<1B"),
)


def card(facts: Facts, scores: dict[str, Any]) -> str:
    """Markdown. scores: of the released runs, as `board.scores_of` gives them."""
    environment = Environment(
        loader=PackageLoader("trainwreck.evaluation.release", "."),
        autoescape=False,  # Markdown, of our own words
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("card.md.jinja").render(
        facts=facts,
        licence=LICENCE,
        terms=LICENCE_TERMS,
        tags=TAGS,
        size=size_category(facts.steps),
        board=markdown(scores["rows"]),
        notes=scores["cards"][0]["notes"],
    )


def size_category(rows: int) -> str:
    """The hub's name for so many rows."""
    return next((name for limit, name in SIZES if rows < limit), "1B<n<10B")
