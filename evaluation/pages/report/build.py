"""From a data set and its scores to one HTML file, pictures included."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.runs_table import objective_of
from trainwreck.evaluation.dataset.schema import FAILURES, SECTIONS, RunKind
from trainwreck.evaluation.files import write_text
from trainwreck.evaluation.intervals import number_text
from trainwreck.evaluation.leaderboard.cache import at_hand
from trainwreck.evaluation.leaderboard.columns import TABLES, UPDATE, Table, ceilings, cells, having, heads, record
from trainwreck.evaluation.leaderboard.shortcuts import SHORTCUTS
from trainwreck.evaluation.pages.figures import Story, curve_name, draw, gap_unit, png_url
from trainwreck.evaluation.pages.leaderboard.standings import breakable
from trainwreck.evaluation.pages.templates import template
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.replay.unlabelled import refuse_imported

SHOWN = (*FAILURES, RunKind.LATENT.value, RunKind.LOOK_ALIKE.value)


def write_report(folder: Path, out: Path, tick: Tick | None = None, workers: int = 1) -> Path:
    """Write the page, with as many processes at its pictures; scores the data set first where that is still to do."""
    dataset = load(folder)
    refuse_imported(dataset, "reported on")
    scores = at_hand(dataset)
    rows = examples(dataset)
    pages = dataset.pages
    pool = Parallel(n_jobs=workers, backend="loky", return_as="generator")
    drawn = pool(
        delayed(_picture)(story(dataset, row, scores, pages[row["scenario"]]["telling"])) for _, row in rows.iterrows()
    )
    sections = []
    for done, ((_, row), image) in enumerate(zip(rows.iterrows(), drawn, strict=True), start=1):
        sections.append(section(row, pages[row["scenario"]], image))
        if tick:
            tick(done, len(rows), row["scenario"])
    rules = {(card["detector"], card["profile"]): card["about"].get("rule", "") for card in scores["cards"]}
    name = "page.html.jinja"
    outline = template("trainwreck.evaluation.pages.report", name, number=number_text, breakable=breakable)
    environment = dataset.manifest.get("environment", {})  # not every manifest has one, or names its plan
    facts = {name: environment.get(name) for name in ("trainwreck", "revision", "processor")}
    page = outline.render(
        plan=dataset.manifest.get("plan", "custom"),
        environment=facts | {"torch": environment.get("packages", {}).get("torch")},
        kinds=dataset.runs["kind"].value_counts().to_dict(),
        runs=len(dataset),
        boards=_boards(scores["rows"]),
        ceilings=ceilings(scores["rows"]),
        rules=rules,
        notes=scores["cards"][0]["notes"],
        sections=sections,
    )
    write_text(out, page)
    return out


def _boards(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table for each operating point and profile."""
    profiles = list(dict.fromkeys(row["profile"] for row in rows))
    return [_board([row for row in rows if row["profile"] == one], table, one) for table in TABLES for one in profiles]


def _board(rows: Sequence[dict[str, Any]], table: Table, profile: str) -> dict[str, Any]:
    columns = having(rows, record(table, UPDATE.key))
    title = f"{table.title}, profile {profile}"
    return {
        "title": title,
        "what": table.what,
        "heads": heads(columns),
        "rows": [(row, cells(row, columns)) for row in rows],
    }


def examples(dataset: DataSet) -> pd.DataFrame:
    """One run a scenario and base, the first in the table, in the order of families."""
    runs = dataset.runs[dataset.runs["kind"].isin(SHOWN)]
    return runs.drop_duplicates(["scenario", "base"])


def story(dataset: DataSet, row: pd.Series, scores: dict[str, Any], telling: str) -> Story:
    """What the picture of a run shows: the run, its twin, its cure, the clocks, the alarms."""
    runs = dataset.runs
    traces = {"faulty": dataset.trace(row["run_id"])}
    if row["twin_id"]:
        traces["twin"] = dataset.trace(row["twin_id"])
    same = (runs["scenario"] == row["scenario"]) & (runs["base"] == row["base"]) & (runs["seed"] == row["seed"])
    cured = runs[same & (runs["kind"] == RunKind.CURED.value) & (runs["severity"] == row["severity"])]
    columns = {"s": "onset_step", "v": "visible_step", "p": "no_return_step"}
    steps = {key: step(row[name]) for key, name in columns.items()}
    if len(cured):
        traces["cured"] = dataset.trace(cured.iloc[0]["run_id"])
        steps["cure"] = step(cured.iloc[0]["cure_step"])
    title = row["scenario"] + (f", {row['severity']}" if row["severity"] else "") + f", seed {row['seed']}"
    alarms = first_alarms(scores, row["run_id"])
    return Story(title, traces, telling, steps, alarms, called=curve_name(row["kind"]))


def first_alarms(scores: dict[str, Any], run_id: str) -> dict[str, int]:
    """Detector to its first alarm on a run, under the full profile and each one's published default."""
    blind = {"always", "never", "clock", "periodic", "random", "step_fraction", *SHORTCUTS, *ORACLES}
    firsts = {
        card["detector"]: card["alarms"].get(run_id, {}).get("first")
        for card in scores["cards"]
        if card["profile"] == "full" and card["detector"] not in blind
    }
    return {name: first for name, first in firsts.items() if first is not None}


def section(row: pd.Series, page: dict[str, Any], image: str) -> dict[str, Any]:
    """A scenario's part of the page. image: a data URL."""
    visible = json.loads(row["visible_steps"] or "{}")
    first = sorted(visible, key=lambda name: visible[name])[:6]
    setup = json.loads(row["context"])
    return {
        "id": row["scenario"],
        "anchor": row["run_id"],
        "on_text": setup.get("data", {}).get("source") == "text",
        "title": page["title"],
        "family": page["family"],
        "text": [(name, page["sections"][name]) for name in SECTIONS if name in page["sections"]],
        "kind": row["kind"],
        "outcome": row["outcome"],
        "severity": row["severity"],
        "onset": step(row["onset_step"]),
        "visible": step(row["visible_step"]),
        "shows_in": [(name, visible[name]) for name in first],
        "gap": float(row["final_gap"]) if pd.notna(row["final_gap"]) else None,
        "gap_unit": gap_unit(objective_of(row["context"])),
        "picture": image,
    }


def _picture(shown: Story) -> str:
    return png_url(draw(shown), 100)


def step(value: Any) -> int | None:
    """A step of the runs table, where missing is NaN."""
    return None if pd.isna(value) else int(value)
