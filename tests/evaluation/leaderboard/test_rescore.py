"""Stored alarms give the scores of the replay, bitwise; alarms that no replay can give are refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.constants import LOG_EVERY
from trainwreck.evaluation.dataset.dataset import DataSet, load, load_labels, write_manifest, write_runs
from trainwreck.evaluation.detectors.base import Detector, Row, Verdict
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.cache import board_from, leaderboard_of
from trainwreck.evaluation.leaderboard.rescore import alarm_files, check, keep_alarms, rescore
from trainwreck.evaluation.leaderboard.run import known_causes, score_all
from trainwreck.evaluation.leaderboard.stored_alarms import AlarmFile, StoredAlarms
from trainwreck.evaluation.replay.profiles import PROFILES, observe, shown_steps, steps_allowed
from trainwreck.evaluation.scoring.scorecard import Scorecard


class Breaks(Detector):
    """Names a cause, alarms more than once, and fails on a row of some runs."""

    name = "breaks"

    def update(self, row: Row) -> Verdict:
        loss = row["loss"]
        if loss is None or not loss == loss:
            raise RuntimeError("no loss")
        return Verdict(loss, loss > 3.5 or row["step"] in (5, 90), ("high_lr", "unknown"))


@pytest.fixture(scope="module")
def cards(data_set: DataSet) -> list[Scorecard]:
    return score_all(data_set, ["loss_over_minimum", "never", Breaks], profiles=["full", "minimal"])


@pytest.fixture(scope="module")
def folder(cards: list[Scorecard], data_set: DataSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("alarms")
    assert len(keep_alarms(found, data_set, cards)) == len(cards)
    return found


def labels_alone(data_set: DataSet, folder: Path) -> Path:
    """The folder with what a data set is without its telemetry."""
    folder.mkdir()
    for name in ("manifest.json", "runs.parquet"):
        shutil.copy(data_set.path / name, folder / name)
    return folder


def test_the_scores_are_those_of_the_replay_without_any_telemetry(
    cards: list[Scorecard], folder: Path, data_set: DataSet, tmp_path: Path
) -> None:
    again = rescore(load_labels(labels_alone(data_set, tmp_path / "labels")), alarm_files([folder]))
    found = {(card.detector, card.profile): card for card in again}
    assert len(found) == len(cards)
    for card in cards:
        other = found[card.detector, card.profile]
        assert json.dumps(other.to_dict(), sort_keys=True) == json.dumps(card.to_dict(), sort_keys=True)
        assert other.text() == card.text()
        for point in card.recall:
            assert other.detected(point).tolist() == card.detected(point).tolist()
        assert [part.tolist() for part in other.curve()] == [part.tolist() for part in card.curve()]
    assert {card.counts["crashed"] for card in cards if card.detector == "breaks"} != {0}


def test_the_board_is_that_of_the_replay(tmp_path: Path, write_small_data_set: Callable[..., DataSet]) -> None:
    write_small_data_set(tmp_path / "data")
    scores = leaderboard_of(tmp_path / "data", alarms=tmp_path / "alarms")
    again = board_from(tmp_path / "data", [tmp_path / "alarms"])
    assert json.dumps(again["rows"]) == json.dumps(scores["rows"])
    assert again["of"] == scores["of"]
    (tmp_path / "alarms" / "any_zscore-full-blind.parquet").unlink()
    with pytest.raises(InputError, match="from: no alarms of any_zscore under the profile full"):
        board_from(tmp_path / "data", [tmp_path / "alarms"])


def test_alarms_outlive_a_new_label_and_no_new_telemetry(folder: Path, data_set: DataSet, tmp_path: Path) -> None:
    files = alarm_files([folder])
    copy = Path(shutil.copytree(data_set.path, tmp_path / "copy"))
    runs = data_set.runs.astype(object).where(data_set.runs.notna(), None)
    runs.loc[runs["kind"] == "failing", "no_return_step"] = None
    write_runs(copy, runs.to_dict("records"))
    write_manifest(copy, {})
    (card, *_), (old, *_) = rescore(load_labels(copy), files), rescore(data_set, files)
    assert card.counts["no_return_measured"] == 0 < old.counts["no_return_measured"]
    (copy / "telemetry" / "a.parquet").write_bytes(b"other")
    write_manifest(copy, {})
    with pytest.raises(InputError, match="made on other telemetry"):
        rescore(load_labels(copy), files)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("steps", [1, 9, 10, 11, 120])
def test_the_steps_of_a_profile_are_those_of_its_rows(profile: str, steps: int) -> None:
    rows = [{"step": step, "loss": 1.0} for step in range(steps)]
    shown = [row["step"] for row in observe(rows, profile)]
    assert list(shown_steps(profile, steps - 1, LOG_EVERY)) == shown


@pytest.fixture
def file(folder: Path) -> AlarmFile:
    return next(one for one in alarm_files([folder]) if (one.detector, one.profile) == ("breaks", "full"))


def of(**change: Any) -> Callable[[AlarmFile], AlarmFile]:
    """The file with fields of its first run that did not fail changed."""

    def apply(file: AlarmFile) -> AlarmFile:
        place = next(i for i, one in enumerate(file.alarms) if one.status == "ok")
        arrays = {name: np.array(value) if isinstance(value, list) else value for name, value in change.items()}
        runs = list(file.alarms)
        runs[place] = replace(runs[place], **arrays)
        return replace(file, alarms=tuple(runs))

    return apply


def runs_of(change: Callable[[tuple[StoredAlarms, ...]], tuple[StoredAlarms, ...]]) -> Callable[[AlarmFile], AlarmFile]:
    return lambda file: replace(file, alarms=change(file.alarms))


WRONG: list[tuple[Callable[[AlarmFile], AlarmFile], str]] = [
    (lambda file: replace(file, profile="ful"), "profile: 'ful' is not allowed; did you mean 'full'"),
    (lambda file: replace(file, track="seen"), "track: 'seen' is not allowed"),
    (lambda file: replace(file, k=5), "k: 5 is not allowed; allowed: 10"),
    (lambda file: replace(file, detector="oracle_at_v"), "detector: 'oracle_at_v' knows the label"),
    (runs_of(lambda stored: stored[2:]), "runs missing: calibration-100, calibration-101; allowed: each run once"),
    (runs_of(lambda stored: (*stored, stored[0])), "runs there twice: calibration-100"),
    (runs_of(lambda stored: (*stored, replace(stored[0], run_id="x"))), "runs not of this data set: x"),
    (of(edges=[-1]), "alarm at step -1, before the run; allowed: 0 to 119"),
    (of(edges=[500]), "alarm at step 500, after the run's last step 119"),
    (of(edges=[50, 50]), "alarm steps 50, 50 are not allowed"),
    (of(edges=[50, 60]), "alarm steps 50, 60 are not allowed; allowed: ascending, 20 or more apart"),
    (of(steps=[0, 130], scores=[0.0, 1.0]), "score at step 130, after the run's last step 119"),
    (of(steps=[0, 7], scores=[0.0, float("nan")]), "score nan is not allowed; allowed: numbers"),
    (of(steps=[0, 7], scores=[float("-inf"), 0.0]), "score -inf is not allowed"),
    (of(answers=((3, ("high_lr",)),)), "causes named at steps 3; allowed: ascending, at which the score rises"),
    (of(answers=((0, ("high_lrr",)),)), "causes: 'high_lrr' is not allowed"),
    (of(steps=[0, 7], scores=[1.0, 1.0]), "scores do not rise"),
    (of(steps=[3], scores=[1.0]), "no score at step 0, the first row"),
    (of(steps=[0, 7], scores=[1.0]), "2 steps of scores and 1 scores"),
    (of(judged=0), "status ok after 0 of 120 rows"),
    (of(judged=121), "rows: 121 is not allowed; allowed: 0 to 120"),
    (of(judged_until=5), "last_judged: 5 is not allowed; allowed: 119"),
    (of(status="timeout: slow", judged=10, judged_until=9, edges=[40]), "alarm at step 40, of which it judged no row"),
    (of(causes=("high_lrr",)), "causes: 'high_lrr' is not allowed; did you mean 'high_lr'"),
    (of(causes=("high_lr", "high_lr")), "names a cause twice"),
    (of(edges=np.array([], dtype=int)), "causes without an alarm"),
    (of(status=""), "status: '' is not allowed"),
    (of(update_us=float("nan")), "cost: nan us"),
    (of(state_bytes=-1), "-1 bytes are not allowed"),
]


@pytest.mark.parametrize(("change", "complaint"), WRONG)
def test_alarms_that_no_replay_gives_are_refused(
    change: Callable[[AlarmFile], AlarmFile], complaint: str, file: AlarmFile, data_set: DataSet
) -> None:
    causes = known_causes(data_set)
    check(file, data_set.runs, causes)
    with pytest.raises(InputError) as error:
        check(change(file), data_set.runs, causes)
    assert complaint in str(error.value)
    assert str(error.value).startswith(str(file.path))
    assert "\n" not in str(error.value)


def test_steps_that_a_profile_does_not_show_are_refused(folder: Path, data_set: DataSet) -> None:
    file = next(one for one in alarm_files([folder]) if (one.detector, one.profile) == ("breaks", "minimal"))
    with pytest.raises(InputError, match="alarm at step 55, of which it judged no row"):
        check(of(edges=[55])(file), data_set.runs, known_causes(data_set))


def test_logs_that_are_drawn_are_rescored_without_telemetry(data_set: DataSet, tmp_path: Path) -> None:
    cards = score_all(data_set, ["loss_over_minimum", Breaks], profiles=["logged"])
    keep_alarms(tmp_path / "kept", data_set, cards)
    files = alarm_files([tmp_path / "kept"])
    again = {card.detector: card for card in rescore(load_labels(labels_alone(data_set, tmp_path / "labels")), files)}
    for card in cards:
        assert json.dumps(again[card.detector].to_dict(), sort_keys=True) == json.dumps(card.to_dict(), sort_keys=True)
    file = next(one for one in files if one.detector == "loss_over_minimum")
    last = dict(zip(data_set.runs["run_id"], data_set.runs["last_step"], strict=True))
    thinned = next(
        place
        for place, one in enumerate(file.alarms)
        if not steps_allowed(one.run_id, "logged", int(last[one.run_id]))[1] and one.rows < 60
    )
    for change, complaint in (
        ({"edges": np.array([121])}, "alarm at step 121, after the run's last step 119"),
        ({"judged": 121}, "rows: 121 is not allowed"),
        ({"judged_until": 200}, "last_judged: 200 is not allowed"),
    ):
        runs = list(file.alarms)
        runs[thinned] = replace(runs[thinned], **change)
        with pytest.raises(InputError, match=complaint):
            check(replace(file, alarms=tuple(runs)), data_set.runs, known_causes(data_set))


def test_two_files_of_one_entry_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "never-full-blind.parquet", tmp_path / "again.parquet")
    with pytest.raises(InputError, match="alarms of never, full, blind are in"):
        alarm_files([folder, tmp_path])
    with pytest.raises(InputError, match=r"holds no \.parquet file"):
        alarm_files([empty(tmp_path)])


def empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def test_labels_that_are_damaged_are_refused_without_telemetry(data_set: DataSet, tmp_path: Path) -> None:
    labels = labels_alone(data_set, tmp_path / "labels")
    assert len(load_labels(labels)) == len(data_set)
    with pytest.raises(InputError, match=r"a\.parquet: missing"):
        load(labels)
    with (labels / "runs.parquet").open("r+b") as runs:
        runs.write(b"XXXX")
    with pytest.raises(InputError, match=r"runs\.parquet: damaged or edited"):
        load_labels(labels)
