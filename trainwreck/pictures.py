"""Pictures of runs in Python: curves beside the twin's, with onset, visible step, cure and the alarms of scorecards."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from trainwreck.dataset import Run
from trainwreck.evaluation.dataset.schema import UNDER_FAULT, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.figures import Story, curve_name, draw, png_url

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trainwreck.evaluation.scoring.scorecard import Scorecard
    from trainwreck.scenarios.views.session import Experiment

DPI = 80  # of a picture in a notebook


def figure(
    run: "Run | Trace | Experiment",
    *,
    alarms: "Scorecard | Sequence[Scorecard] | Mapping[str, int] | None" = None,
    signals: Sequence[str] = (),
) -> "Figure":
    """Draw a run with onset, visible step, point of no return, cure and first alarms; a matplotlib figure.

    run: `data.trace(run_id)`, drawn beside its twin and its cure where the data set has them; what `run` returned; or
    a telemetry alone. alarms: a scorecard of the data set or several, or detector to the step of its first alarm.
    signals: a panel each; by default loss, gradient norm and the most diagnostic one. InputError for a signal that is
    none, or a scorecard without the run.
    """
    story = _story(run, signals)
    story.alarms = _first_alarms(run, alarms)
    return draw(story)


def as_html(made: "Figure") -> str:
    """A figure as HTML with the picture in it."""
    return f'<img alt="curves of the run" src="{png_url(made, DPI)}">'


def _story(run: "Run | Trace | Experiment", signals: Sequence[str]) -> Story:
    if isinstance(run, Run):
        row = run.label
        columns = {"s": "onset_step", "v": "visible_step", "p": "no_return_step"}
        steps = {key: _step(row[name]) for key, name in columns.items()}
        beside = _beside(run)
        if isinstance(cured := beside.get("cured"), Run):
            steps["cure"] = _step(cured.label["cure_step"])
        return Story(run.title, beside, _telling(run), steps, signals=signals, called=curve_name(row["kind"]))
    if isinstance(run, Trace):
        return Story(run.run_id, {"faulty": run}, "loss", signals=signals, called=curve_name(RunKind.IMPORTED.value))
    if hasattr(run, "story"):
        found: Story = run.story(*signals)
        return found
    raise InputError(f"run: {type(run).__name__} is not allowed; allowed: data.trace(run_id), or what run returned")


def _beside(run: Run) -> dict[str, Trace]:
    """The run by its role, with those of its twin set that the data set has."""
    row, table = run.label, run.data.runs
    if row["kind"] == RunKind.HEALTHY.value:
        return {"twin": run}
    role = "cured" if row["kind"] == RunKind.CURED.value else "faulty"
    found: dict[str, Trace] = {role: run}
    if row["twin_id"] in table.index:
        found["twin"] = run.data.trace(row["twin_id"])
    cured = table[(table["kind"] == RunKind.CURED.value) & (table["twin_id"] == row["twin_id"])]
    cured = cured[(cured["scenario"] == row["scenario"]) & (cured["severity"] == row["severity"])]
    if row["kind"] in UNDER_FAULT and row["twin_id"] and len(cured) == 1:
        found["cured"] = run.data.trace(cured["run_id"].iloc[0])
    return found


def _telling(run: Run) -> str:
    """The most diagnostic signal by the page of the scenario in the data set; the loss where it has none."""
    file = run.data.path / "catalogue.json"
    pages = run.data.pages if file.is_file() else {}
    return str(pages.get(run.label["scenario"], {}).get("telling", "loss"))


def _step(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _first_alarms(run: "Run | Trace | Experiment", alarms: Any) -> dict[str, int]:
    """Detector to its first alarm on the run."""
    if alarms is None:
        return {}
    if isinstance(alarms, Mapping):
        return {str(name): int(step) for name, step in alarms.items()}
    run_id = run.run_id if isinstance(run, Trace) else run["faulty"].run_id
    found = {}
    for card in alarms if isinstance(alarms, Sequence) else [alarms]:
        if not hasattr(card, "alarms"):
            raise InputError(f"alarms: {type(card).__name__} is not allowed; allowed: scorecards, or name to step")
        mine = next((one for one in card.alarms if one.run_id == run_id), None)
        if mine is None:
            raise InputError(f"alarms: {card.detector} was not shown run {run_id}; allowed: one of its data set")
        if mine.first_alarm is not None:
            found[card.detector] = mine.first_alarm
    return found
