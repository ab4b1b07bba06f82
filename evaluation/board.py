"""The leaderboard of a data set, kept beside it so that a report need not score again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset import DataSet, load
from trainwreck.evaluation.files import read_json, sha256, write_json
from trainwreck.evaluation.measure import Scorecard, plain
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.ranking import table
from trainwreck.evaluation.scorecard import board_cards
from trainwreck.evaluation.sets import fingerprint
from trainwreck.evaluation.shipped import is_sample
from trainwreck.evaluation.specification import SCORING_VERSION

SCORES = "scores.json"


def leaderboard_of(
    folder: Path,
    extra: Sequence[str] = (),
    profiles: Sequence[str] = ("full",),
    tick: Tick | None = None,
    workers: int = 1,
) -> list[dict[str, Any]]:
    """Score every built-in detector, the oracles and `extra`; rows best first, also kept in DIR/scores.json.

    workers: processes to replay in.
    """
    content = scores_of(load(folder), extra, profiles, tick, workers)
    _keep(folder, content)
    rows: list[dict[str, Any]] = content["rows"]
    return rows


def scores_of(
    dataset: DataSet,
    extra: Sequence[str] = (),
    profiles: Sequence[str] = ("full",),
    tick: Tick | None = None,
    workers: int = 1,
) -> dict[str, Any]:
    """What `leaderboard_of` keeps: what the scores are of, the rows and the scorecards."""
    cards = board_cards(dataset, extra, profiles, workers=workers, progress=tick)
    rows = [plain(row) for row in table(cards).to_dict("records")]
    return {"of": stamp(dataset), "rows": rows, "cards": [compact(card) for card in cards]}


def kept(dataset: DataSet) -> dict[str, Any] | None:
    """The scores kept beside a data set, if they are of it as it is and of this scoring version."""
    file = dataset.path / SCORES
    content = read_json(file) if file.exists() else None
    return content if isinstance(content, dict) and content.get("of") == stamp(dataset) else None


def at_hand(dataset: DataSet) -> dict[str, Any]:
    """The scores kept beside a data set; made, and kept, where there are none."""
    scores = kept(dataset)
    if scores is None:
        scores = scores_of(dataset)
        _keep(dataset.path, scores)
    return scores


def _keep(folder: Path, content: dict[str, Any]) -> None:
    if not is_sample(folder):  # which is a part of the installed package
        write_json(folder / SCORES, content)


def stamp(dataset: DataSet) -> dict[str, Any]:
    """What scores hold for."""
    return {
        "manifest": sha256(dataset.path / "manifest.json"),
        "scoring_version": SCORING_VERSION,
        "equivalence_sets": fingerprint(),
    }


def compact(card: Scorecard) -> dict[str, Any]:
    """A scorecard without the rows of every run: each run's first alarm, causes and status."""
    facts = card.to_dict()
    facts["alarms"] = {
        a["run_id"]: {"first": a["first_alarm"], "causes": a["causes"], "status": a["status"]} for a in facts["alarms"]
    }
    return facts
