"""The leaderboard kept beside a data set: written once, read back as it was, never believed of other data."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.constants import BOARD_PROFILES, SCORING_VERSION
from trainwreck.evaluation.dataset.dataset import DataSet, load, write_manifest, write_runs
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.cache import SCORES, kept, leaderboard_of, stamp
from trainwreck.evaluation.leaderboard.run import board_cards, leaderboard
from trainwreck.evaluation.replay.oracles import ORACLES


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory, write_small_data_set: Callable[..., DataSet]) -> Path:
    root = tmp_path_factory.mktemp("scored")
    write_small_data_set(root)
    (root.parent / "mine.py").write_text(
        "class Mine:\n    def reset(self, context): pass\n"
        "    def update(self, row): return row['loss'] is not None and row['loss'] > 5\n"
    )
    leaderboard_of(root, [mine(root)], ["full", "minimal"])
    return root


def mine(root: Path) -> str:
    return f"{root.parent / 'mine.py'}:Mine"


@pytest.fixture
def folder(scored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(scored, tmp_path / "copy"))


@pytest.fixture
def scores(scored: Path) -> dict[str, Any]:
    found = kept(load(scored))
    assert found is not None
    return found


def key(row: dict[str, Any]) -> tuple[str, str]:
    return row["detector"], row["profile"]


def test_everyone_is_on_it_in_each_profile(scored: Path, scores: dict[str, Any]) -> None:
    everyone = {*builtin_detectors(), *ORACLES, "mine.py:Mine"}
    expected = {(name, profile) for name in everyone for profile in ("full", "minimal")}
    assert {key(row) for row in scores["rows"]} == {key(card) for card in scores["cards"]} == expected
    assert len(scores["rows"]) == len(scores["cards"]) == len(expected)


@pytest.mark.parametrize("profile", ["full", "minimal"])
def test_the_best_stands_first(profile: str, scores: dict[str, Any]) -> None:
    recall = [row["recall_0.05"] for row in scores["rows"] if row["profile"] == profile]
    assert recall == sorted(recall, reverse=True)
    assert recall[0] > recall[-1]
    ranks = [row["rank"] for row in scores["rows"] if row["profile"] == profile and row["rank"] is not None]
    assert ranks == sorted(ranks)
    assert ranks[0] == 1


def test_the_rows_returned_are_those_kept(folder: Path) -> None:
    ticks: list[tuple[int, int]] = []
    rows = leaderboard_of(folder, tick=lambda done, total, note: ticks.append((done, total)))["rows"]
    content = kept(load(folder))
    assert content is not None
    assert content["rows"] == rows
    total = len(load(folder)) * len(BOARD_PROFILES)
    assert ticks == [(i, total) for i in range(1, total + 1)]


def test_a_card_kept_is_the_card_without_its_rows(scored: Path, scores: dict[str, Any]) -> None:
    data = load(scored)
    cards = {(card["detector"], card["profile"]): card for card in scores["cards"]}
    for card in board_cards(data, profiles=["full"]):
        found, made = cards[card.detector, "full"], json.loads(json.dumps(card.to_dict()))
        assert {k: v for k, v in found.items() if k not in ("alarms", "cost")} == {
            k: v for k, v in made.items() if k not in ("alarms", "cost")
        }
        assert set(found["cost"]) == set(made["cost"]), "times differ, names do not"
        assert set(found["alarms"]) == set(data.runs["run_id"])
        for alarms in card.alarms:
            kept_alarms = found["alarms"][alarms.run_id]
            assert kept_alarms == {
                "first": alarms.first_alarm, "causes": list(alarms.causes), "status": alarms.status
            }  # fmt: skip


def test_the_file_is_json_without_nan(scored: Path) -> None:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} in scores.json")

    content = json.loads((scored / SCORES).read_text(), parse_constant=refuse)
    assert content["of"] == stamp(load(scored))
    assert content["of"]["scoring_version"] == SCORING_VERSION
    assert all(math.isfinite(row["recall_default"]) for row in content["rows"])


def test_scores_of_a_data_set_that_has_changed_are_not_believed(folder: Path) -> None:
    assert kept(load(folder)) is not None
    write_manifest(folder, {"plan": "another"})
    assert kept(load(folder)) is None


def test_scores_of_another_scoring_version_are_not_believed(scored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(load(scored)) is not None
    monkeypatch.setattr("trainwreck.evaluation.leaderboard.cache.SCORING_VERSION", SCORING_VERSION + 1)
    assert kept(load(scored)) is None


def test_without_a_file_there_are_none(folder: Path) -> None:
    (folder / SCORES).unlink()
    assert kept(load(folder)) is None


@pytest.mark.parametrize("text", ["[]", "[1]", "3", "null", "{}", '"text"'])
def test_a_file_that_is_something_else_holds_no_scores(text: str, folder: Path) -> None:
    (folder / SCORES).write_text(text)
    assert kept(load(folder)) is None


@pytest.mark.parametrize("text", ["", '{"of": '])
def test_a_damaged_file_is_one_line_that_names_it(text: str, folder: Path) -> None:
    (folder / SCORES).write_text(text)
    with pytest.raises(InputError) as error:
        kept(load(folder))
    assert str(error.value).startswith(f"{folder / SCORES}: damaged, not JSON")
    assert "\n" not in str(error.value)


def test_an_unknown_detector_leaves_the_scores_as_they_are(folder: Path) -> None:
    before = (folder / SCORES).read_bytes()
    with pytest.raises(InputError, match="'zclop' is not allowed; did you mean 'zclip'"):
        leaderboard_of(folder, ["zclop"])
    assert (folder / SCORES).read_bytes() == before


def test_two_processes_say_what_one_does(scored: Path) -> None:
    def said(workers: int) -> list[dict[str, Any]]:
        cards = [
            card.to_dict() for card in board_cards(load(scored), [mine(scored)], ["full", "minimal"], workers=workers)
        ]
        for card in cards:
            card["cost"].pop("update_us")
            for alarms in card["alarms"]:
                alarms.pop("update_us")
        return cards

    assert json.dumps(said(2)) == json.dumps(said(1))


@pytest.mark.parametrize("base", ["base", "shape"])
def test_recall_on_seen_runs_unseen_causes_and_unseen_bases(
    base: str, tmp_path: Path, write_small_data_set: Callable[..., DataSet]
) -> None:
    """A run counts wherever one of its words does; a severity or a pair alone is in neither column, nor is it seen."""
    root = write_small_data_set(tmp_path / "data").path
    words = {
        "run-0-0": "cause", "run-0-1": f"cause+{base}", "run-0-2": base, "run-1-0": "severity", "run-1-1": "pair"
    }  # fmt: skip
    runs = pq.read_table(root / "runs.parquet").to_pylist()
    write_runs(root, [run | {"held_out": words.get(run["run_id"], "")} for run in runs])
    write_manifest(root, {"plan": "small"})
    board = leaderboard(load(root), ["loss_over_minimum", "nonfinite_loss"], ["full"])
    rows = board.to_frame().set_index("detector")
    for card in board.cards[:2]:
        found = dict(zip(card.outcomes.run_id.tolist(), card.detected("0.05").tolist(), strict=True))
        row = rows.loc[card.detector]
        for column, members in (
            ("recall_seen", ["run-1-2"]),
            ("recall_unseen_cause", ["run-0-0", "run-0-1"]),
            ("recall_unseen_base", ["run-0-1", "run-0-2"]),
        ):
            assert row[column] == pytest.approx(np.mean([found[name] for name in members]), abs=1e-12)
        assert {name: share.exposure for name, share in card.breakdown["held_out"].items()} == {
            "cause": 2, "severity": 1, "pair": 1, base: 2
        }  # fmt: skip
    assert rows.loc["loss_over_minimum", "recall_unseen_cause"] > 0 == rows.loc["nonfinite_loss", "recall_unseen_cause"]


def test_without_held_out_runs_their_recall_is_undefined(scores: dict[str, Any]) -> None:
    for row in scores["rows"]:
        assert row["recall_unseen_cause"] is row["recall_unseen_base"] is None
        assert row["recall_seen"] == row["recall_0.05"]
