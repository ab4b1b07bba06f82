"""The key of a sealed quiz: labels and detectors' alarms, which the page then does not have."""

from pathlib import Path
from typing import Any

import pandas as pd

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, write_json
from trainwreck.evaluation.pages.quiz.quiz import LABELS, Quiz, Said, label
from trainwreck.evaluation.pages.quiz.recipe import Recipe

FORMAT = "trainwreck-quiz-key"
VERSION = 1
FIELDS = ("format", "version", "quiz", "quiz_id", "runs", "detectors", "families")


def write_key(path: Path, quiz: Quiz) -> None:
    """Write all that scores of a quiz take, as JSON."""
    runs = [{name: label(row[name]) for name in LABELS} for _, row in quiz.runs.iterrows()]
    detectors = {
        name: {
            "rule": quiz.rules[name],
            "runs": [_said_to_json(said[run_id]) for run_id in quiz.runs["run_id"]],
        }
        for name, said in quiz.said.items()
    }
    write_json(
        path,
        {
            "format": FORMAT,
            "version": VERSION,
            "quiz": quiz.recipe.to_json(),
            "quiz_id": quiz.recipe.id,
            "runs": runs,
            "detectors": detectors,
            "families": dict(quiz.families),
        },
    )


def read_key(path: Path) -> Quiz:
    """What `write_key` wrote. InputError for a file that is none, or of another version."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: not a key; allowed: what `trainwreck quiz --sealed` writes")
    if content.get("version") != VERSION:
        raise InputError(f"{path}: version: {content.get('version')!r} is not allowed; allowed: {VERSION}")
    if set(content) != set(FIELDS):
        raise InputError(f"{path}: damaged; a key has {', '.join(FIELDS)}")
    recipe = Recipe.read(content["quiz"], str(path))
    if content["quiz_id"] != recipe.id:
        raise InputError(f"{path}: quiz_id: {content['quiz_id']!r} is not that of its quiz, {recipe.id!r}")
    try:
        runs = pd.DataFrame(content["runs"], columns=list(LABELS)).set_index("run_id", drop=False)
        run_ids = runs["run_id"].tolist()
        alarms = {
            name: dict(zip(run_ids, map(_said_of_json, facts["runs"]), strict=True))
            for name, facts in content["detectors"].items()
        }
        rules = {name: str(facts["rule"]) for name, facts in content["detectors"].items()}
        families = {str(cause): str(family) for cause, family in content["families"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: damaged ({type(error).__name__}: {error})") from None
    return Quiz(recipe, runs, alarms, rules, families)


def _said_to_json(said: Said) -> list[Any]:
    return [said.first, list(said.edges), list(said.causes), said.status]


def _said_of_json(content: list[Any]) -> Said:
    first, edges, causes, status = content
    return Said(first, tuple(edges), tuple(causes), status)
