"""A leaderboard as files: CSV and Parquet for other tools, JSON with everything, one HTML page to look at."""

import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from trainwreck.evaluation.constants import CONFIDENCE, RESAMPLES
from trainwreck.evaluation.dataset.dataset import DataSet, telemetry_digest
from trainwreck.evaluation.files import write_csv, write_json, write_parquet, write_text
from trainwreck.evaluation.leaderboard.transfer.boards import write_detections, write_thresholds
from trainwreck.evaluation.pages.leaderboard.standings import page

PACKAGES = ("numpy", "pandas", "scipy", "pyarrow")


def made(dataset: DataSet, scores: dict[str, Any], command: str) -> dict[str, Any]:
    """What numbers on a board hold for: data set with checksums, versions, the command that made it."""
    from importlib.metadata import version

    environment = dataset.manifest.get("environment", {})
    return {
        "command": command,
        "data_set": {
            "plan": dataset.manifest.get("plan", "custom"),
            "runs": len(dataset),
            "manifest_sha256": scores["of"]["manifest"],
            "telemetry_sha256": telemetry_digest(dataset),
            "trained_by": environment.get("trainwreck"),
            "revision": environment.get("revision"),
        },
        "versions": {
            "trainwreck": version("trainwreck"),
            "scoring": scores["of"]["scoring_version"],
            "board": scores["of"]["board_version"],
            "equivalence_sets_sha256": scores["of"]["equivalence_sets"],
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "intervals": {"confidence": CONFIDENCE, "resamples": RESAMPLES},
    }


def write_board(out: Path, dataset: DataSet, scores: dict[str, Any], command: str) -> list[Path]:
    """Write leaderboard.csv, .parquet, .json and .html, scenarios.csv, and what `transfer` reads, to `out`; the paths.

    scores: `board.standing`. The tables name data set and scoring version in every row, so that no number loses them.
    """
    facts = made(dataset, scores, command)
    of = {
        "data_set": facts["data_set"]["plan"],
        "manifest_sha256": facts["data_set"]["manifest_sha256"],
        "scoring_version": facts["versions"]["scoring"],
    }
    text = page(scores, facts)
    rows = pd.DataFrame([row | of for row in scores["rows"]])
    parts = pd.DataFrame([part | of for part in _parts(scores)])
    write_csv(out / "leaderboard.csv", rows)
    write_csv(out / "scenarios.csv", parts)
    write_parquet(out / "leaderboard.parquet", [pa.Table.from_pandas(rows, preserve_index=False)])
    write_json(
        out / "leaderboard.json",
        {"made": facts, "easy": scores["easy"], "rows": scores["rows"], "parts": list(_parts(scores))},
    )
    write_text(out / "leaderboard.html", text)
    more = [write_detections(out, scores["detections"]), write_thresholds(out, scores["cards"])]
    names = ("leaderboard.html", "leaderboard.csv", "leaderboard.parquet", "leaderboard.json", "scenarios.csv")
    return [*(out / name for name in names), *more]


def _parts(scores: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The heat maps as rows: profile, detector, what it is of, runs, and the share with its interval.

    Shares are in-time recall within the headline budget; of look-alikes the share stopped.
    """
    for card in scores["cards"]:
        for part, shares in card["breakdown"].items():
            for name, share in shares.items():
                yield {
                    "profile": card["profile"],
                    "detector": card["detector"],
                    "part": part,
                    "name": name,
                    "runs": share["exposure"],
                    "events": share["events"],
                    "share": share["value"],
                    "low": share["low"],
                    "high": share["high"],
                    "easy": name in scores["easy"][card["profile"]] if part == "scenario" else None,
                }
