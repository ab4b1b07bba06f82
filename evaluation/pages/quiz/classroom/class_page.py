"""A class as files: a page for the teacher, and the same as CSV."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from trainwreck.evaluation.constants import CONFIDENCE, SCORING_VERSION
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.files import write_csv, write_text
from trainwreck.evaluation.intervals import row_interval_text
from trainwreck.evaluation.pages import asset, script
from trainwreck.evaluation.pages.assets import THEME
from trainwreck.evaluation.pages.quiz.answers import NOTHING
from trainwreck.evaluation.pages.quiz.classroom.scores import PERSON, Results
from trainwreck.evaluation.pages.quiz.quiz import BAR
from trainwreck.evaluation.pages.templates import template

HEADS = (
    ("recall", "found in time"), ("stopped", "healthy runs stopped"), ("stopped_look_alike", "look-alikes stopped"),
    ("skill", "W*"), ("lead", "lead"), ("delay_share", "delay (share of the time there was)"), ("top1", "cause"),
    ("top3", "cause, of three"), ("top1_within_set", "cause within its set"), ("family", "family"),
)  # fmt: skip


def write_class(
    out: Path, found: Results, runs: Sequence[dict[str, Any]], wrong: Sequence[dict[str, Any]]
) -> list[Path]:
    """Write class.html, people.csv, runs.csv and confusions.csv to `out`; returns the paths, the page first."""
    players = [row for row in found.rows if row["kind"] == PERSON]
    outline = template(
        "trainwreck.evaluation.pages.quiz.classroom", "class.html.jinja", span=row_interval_text, number=_number
    )
    page = outline.render(
        palette=Markup(asset("palette.css")),
        shared=Markup(script(*THEME)),
        rows=found.rows,
        heads=HEADS,
        runs=runs,
        wrong=wrong,
        failures=FAILURES,
        players=len(players),
        unanswered=sum(answer.said == NOTHING for sheet in found.sheets for answer in sheet.answers),
        seconds=_seconds(found),
        quizzes=found.quizzes.values(),
        profile=found.profile,
        bar=BAR,
        confidence=CONFIDENCE,
        scoring_version=SCORING_VERSION,
        notes=[note for note in found.room.notes if "calibration" not in note],
    )
    tables = {"people.csv": found.rows, "runs.csv": runs}
    if wrong:
        tables["confusions.csv"] = wrong
    write_text(out / "class.html", page)
    for name, rows in tables.items():
        write_csv(out / name, pd.DataFrame(rows))
    return [out / "class.html", *(out / name for name in tables)]


def _seconds(found: Results) -> float | None:
    """Mean time of an answer."""
    spent = [answer.seconds for answers in found.answers.values() for answer in answers]
    return sum(spent) / len(spent) if spent else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
