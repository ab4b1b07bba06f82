"""A data set's results as files to commit: leaderboard and labels as Markdown, a picture a scenario."""

from pathlib import Path
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.files import write_json, write_text
from trainwreck.evaluation.leaderboard.cache import at_hand
from trainwreck.evaluation.leaderboard.columns import markdown
from trainwreck.evaluation.pages.figures import save
from trainwreck.evaluation.pages.report.build import examples, step, story
from trainwreck.evaluation.progress import Tick


def write_record(folder: Path, out: Path, tick: Tick | None = None) -> Path:
    """Write README.md, leaderboard.json, environment.json and pictures/ to `out`, and return it.

    Pictures of an earlier record that this one does not have are removed.
    """
    dataset = load(folder)
    scores = at_hand(dataset)
    rows = examples(dataset)
    pages = dataset.pages
    for done, (_, row) in enumerate(rows.iterrows(), start=1):
        save(story(dataset, row, scores, pages[row["scenario"]]["telling"]), out / "pictures" / picture_name(row, rows))
        if tick:
            tick(done, len(rows), row["scenario"])
    names = {picture_name(row, rows) for _, row in rows.iterrows()}
    for old in (out / "pictures").glob("*.png"):
        if old.name not in names:
            old.unlink()
    write_text(out / "README.md", readme(dataset, scores, rows))
    write_json(out / "leaderboard.json", scores["rows"])
    write_json(out / "environment.json", dataset.manifest["environment"])
    return out


def picture_name(row: pd.Series, rows: pd.DataFrame) -> str:
    """The scenario's id; a second base of the same scenario adds its own name."""
    first = rows[rows["scenario"] == row["scenario"]].iloc[0]
    extra = "" if row["run_id"] == first["run_id"] else f"-{row['base']}"
    return f"{row['scenario']}{extra}.png"


def readme(dataset: DataSet, scores: dict[str, Any], rows: pd.DataFrame) -> str:
    """The page that is committed."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in dataset.runs["kind"].value_counts().items())
    plan = dataset.manifest["plan"]
    lines = [
        f"# Data set `{plan}`: leaderboard and pictures",
        "",
        f"{len(dataset)} runs: {kinds}. Made by `trainwreck generate {plan} --out DIR` and",
        "`trainwreck report DIR --record`; what each column means is in [docs/scoring.md](../../docs/scoring.md).",
        *(f"\nNote: {note}." for note in scores["cards"][0]["notes"]),
        "",
        *markdown(scores["rows"]),
    ]
    lines += [
        "",
        "## Runs",
        "",
        "| scenario | kind | outcome | onset (s) | visible (v) | final gap (nats) |",
        "|" + "---|" * 6,
    ]
    for _, row in rows.iterrows():
        name = f"[{row['scenario']}](pictures/{picture_name(row, rows)})"
        clocks = [step(row["onset_step"]), step(row["visible_step"])]
        shown = ["-" if clock is None else str(clock) for clock in clocks]
        gap = "-" if pd.isna(row["final_gap"]) else f"{row['final_gap']:+.3f}"
        lines.append(f"| {name} | {row['kind']} | {row['outcome']} | {shown[0]} | {shown[1]} | {gap} |")
    return "\n".join(lines) + "\n"
