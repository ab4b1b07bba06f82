"""What the quiz shows of a run after the answer."""

import json
from typing import Any

from trainwreck.evaluation.constants import TUNING_SPLITS
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import JOINT, SECTIONS
from trainwreck.evaluation.pages.quiz.curves import curves
from trainwreck.evaluation.pages.quiz.quiz import BAR, Quiz, label
from trainwreck.evaluation.replay.profiles import visible_step
from trainwreck.evaluation.scoring.equivalence_sets import shipped
from trainwreck.evaluation.scoring.metrics.diagnosis import allowed

MOST_SIGNALS = 6  # of those in which the failure shows first


def truths(dataset: DataSet, quiz: Quiz) -> list[dict[str, Any]]:
    """One a run, in the order of play: label, clocks, page, twin's curves, and each detector's first alarm."""
    pages = dataset.pages
    return [truth(dataset, quiz, run_id, pages) for run_id in quiz.runs["run_id"]]


def truth(dataset: DataSet, quiz: Quiz, run_id: str, pages: dict[str, Any]) -> dict[str, Any]:
    """JSON-safe. no_return is the last step where it was not measured; within: names that are right within a set."""
    row = {name: label(value) for name, value in quiz.runs.loc[run_id].items()}
    profile = quiz.recipe.profile
    scenario = row["scenario"] or ""
    scenarios = [scenario] if scenario in pages else scenario.split(JOINT)  # a pair has a page of its own, or two
    visible = json.loads(row["visible_steps"] or "{}")
    first = sorted(visible, key=lambda name: (visible[name], name))[:MOST_SIGNALS]
    cause = row["cause"] or ""
    within = allowed(cause, shipped(profile)) if cause else set()
    twin = row["twin_id"] if row["twin_id"] in dataset.runs.index and row["twin_id"] != run_id else None
    return {
        "kind": row["kind"],
        "causes": [name for name in cause.split(JOINT) if name],
        "families": [name for name in (row["family"] or "").split(JOINT) if name] if cause else [],
        "within": sorted(within - set(cause.split(JOINT))),
        "severity": row["severity"] or "",
        "outcome": row["outcome"] or "",
        "gap": row["final_gap"],
        "onset": row["onset_step"],
        "visible": visible_step(row, profile),
        "no_return": row["last_step"] if row["no_return_step"] is None else row["no_return_step"],
        "no_return_measured": row["no_return_step"] is not None,
        "last": row["last_step"],
        "planned": max(row["planned_steps"] - 1, row["last_step"]),
        "measured": row["split"] not in TUNING_SPLITS,
        "shows": [[name, visible[name]] for name in first],
        "pages": [_page(name, pages[name]) for name in scenarios if name in pages],
        "twin": curves(dataset.trace(twin), profile) if twin else None,
        "detectors": [
            {"name": name, "first": said[run_id].first, "causes": list(said[run_id].causes), "bar": name in BAR}
            for name, said in quiz.said.items()
        ],
    }


def _page(name: str, page: dict[str, Any]) -> dict[str, Any]:
    sections = [
        (section, " ".join(page["sections"][section].split())) for section in SECTIONS if section in page["sections"]
    ]
    return {
        "id": name,
        "title": page["title"],
        "family": page["family"],
        "telling": page["telling"],
        "sections": sections,
    }
