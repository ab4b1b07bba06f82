"""The leaderboard of a data set, kept beside it so that a report need not score again, and made from stored alarms."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from trainwreck.evaluation.constants import ONE_LINERS, SCORING_VERSION
from trainwreck.evaluation.dataset.dataset import DataSet, load, load_labels
from trainwreck.evaluation.dataset.sample import is_sample
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, sha256, write_json
from trainwreck.evaluation.leaderboard.confirmation import NO_CLAIM, claim_of, read_records
from trainwreck.evaluation.leaderboard.ranking import table
from trainwreck.evaluation.leaderboard.rescore import keep_card, rescore
from trainwreck.evaluation.leaderboard.run import BLIND, board_cards
from trainwreck.evaluation.leaderboard.submission import require_row_by_row, stored_in
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.scoring.equivalence_sets import fingerprint
from trainwreck.evaluation.scoring.scorecard import Scorecard, plain

SCORES = "scores.json"
BOARD_VERSION = 4  # of what is kept: its fields, not their meaning


def leaderboard_of(
    folder: Path,
    extra: Sequence[str] = (),
    profiles: Sequence[str] = (),
    tick: Tick | None = None,
    workers: int = 1,
    alarms: Path | None = None,
    limits: Limits | None = None,
) -> dict[str, Any]:
    """Score every built-in detector, the oracles and `extra`; what `scores_of` gives, also kept in DIR/scores.json.

    workers: processes to replay in. alarms: folder to write every detector's alarms to, each when it is finished.
    limits: of processes that detectors of files, plug-ins and commands run in.
    """
    dataset = load(folder)
    keep = None if alarms is None else partial(keep_card, alarms, dataset)
    cards = board_cards(dataset, extra, profiles, workers=workers, limits=limits, progress=tick, finished=keep)
    content = standing(dataset, cards)
    _keep(folder, content)
    return content


def board_from(folder: Path, stored: Sequence[Path], confirmed: Sequence[Path] = ()) -> dict[str, Any]:
    """The same from stored alarms and submissions, with the oracles: labels are read, telemetry is not.

    stored: what `submission.stored_in` takes. confirmed: records of submissions whose code was run again. Nothing is
    kept. An entry of the informed track has that beside its name. InputError for a submission that was not replayed
    row by row.
    """
    dataset, records, files = load_labels(folder), read_records(confirmed), stored_in(stored)
    require_row_by_row(files)
    cards, claims = [], {}
    for card in rescore(dataset, files, oracles=True):
        claim = claim_of(card, records)
        if card.track != BLIND:
            card = replace(card, detector=f"{card.detector} ({card.track})")
        cards.append(card)
        if claim["claim"]:
            claims[card.profile, card.detector] = claim
    for profile in dict.fromkeys(card.profile for card in cards):
        missing = set(ONE_LINERS) - {card.detector for card in cards if card.profile == profile}
        if missing:
            raise InputError(
                f"from: no alarms of {', '.join(sorted(missing))} under the profile {profile}, which every board has; "
                f"allowed: with what `trainwreck leaderboard {folder} --profile {profile} --alarms OUT` writes"
            )
    return standing(dataset, cards, claims)


def scores_of(
    dataset: DataSet,
    extra: Sequence[str] = (),
    profiles: Sequence[str] = (),
    tick: Tick | None = None,
    workers: int = 1,
) -> dict[str, Any]:
    """`standing` of every built-in detector, the oracles and `extra`."""
    return standing(dataset, board_cards(dataset, extra, profiles, workers=workers, progress=tick))


def standing(
    dataset: DataSet, cards: Sequence[Scorecard], claims: Mapping[tuple[str, str], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """What is kept: what the scores are of, the rows, the easy scenarios by profile, the scorecards, what each found.

    JSON-safe.

    claims: columns of `claim_of` by profile and detector; rows have them where there is a submission.
    """
    board = table(cards)
    rows = [plain(row) for row in board.to_dict("records")]
    if claims:
        rows = [row | claims.get((row["profile"], row["detector"]), NO_CLAIM) for row in rows]
    return {
        "of": stamp(dataset),
        "rows": rows,
        "easy": board.attrs["easy"],
        "cards": [compact(card) for card in cards],
        "detections": [detections(card) for card in cards],
    }


def detections(card: Scorecard) -> dict[str, Any]:
    """Chance of each failing run to be found in time, by operating point: columns of `transfer.DETECTIONS`."""
    one = card.outcomes
    runs = {"run_id": one.run_id[one.failing], "cluster": one.subject[one.failing]}
    found = {f"found_{point}": card.detected(point)[one.failing] for point in card.points}
    facts: dict[str, Any] = plain({"profile": card.profile, "detector": card.detector} | runs | found)
    return facts


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
        "board_version": BOARD_VERSION,
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
