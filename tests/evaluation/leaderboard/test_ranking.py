"""The board: order, ties, easy scenarios, differences."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.constants import ONE_LINERS
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Detector, Row
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.ranking import compare, easy_scenarios, recall_without, table
from trainwreck.evaluation.leaderboard.run import leaderboard, score
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.scoring.metrics.significance import Permutation
from trainwreck.evaluation.scoring.scorecard import Scorecard


@pytest.fixture(scope="module")
def board(data_set: DataSet) -> pd.DataFrame:
    return leaderboard(data_set, profiles=["full", "filtered"]).to_frame()


def test_everyone_is_on_it_by_profile(board: pd.DataFrame) -> None:
    everyone = {*builtin_detectors(), *ORACLES}
    assert list(dict.fromkeys(board["profile"])) == ["full", "filtered"]
    for _, group in board.groupby("profile"):
        assert set(group["detector"]) == everyone
        assert len(group) == len(everyone)


def test_best_first(board: pd.DataFrame) -> None:
    for _, group in board.groupby("profile"):
        assert group["recall_0.05"].is_monotonic_decreasing
    full = board[board["profile"] == "full"].set_index("detector")
    assert full.loc["oracle_at_onset", "recall_0.05"] == full["recall_0.05"].max()


def test_ranks_are_shared_and_oracles_have_none(board: pd.DataFrame) -> None:
    full = board[board["profile"] == "full"].set_index("detector")
    assert full.loc[list(ORACLES), "rank"].isna().all()
    ranks = full["rank"].dropna()
    assert ranks.is_monotonic_increasing
    assert ranks.iloc[0] == 1
    assert len(set(full.loc[["nonfinite_loss", "terminate_on_nan", "megatron_nan"], "rank"])) == 1
    assert full.loc["never", "rank"] == full.loc["step_fraction", "rank"]
    assert len(set(ranks)) == 1  # three scenarios can't tell anything apart


def test_blind_entries_have_no_skill(board: pd.DataFrame) -> None:
    full = board[board["profile"] == "full"].set_index("detector")
    assert (full.loc[["never", "always", "clock"], ["skill", "skill_default"]] <= 1e-12).all().all()
    assert full.loc["oracle_at_v", "skill_default"] == pytest.approx(1.0, abs=1e-12)


def test_numbers_are_those_of_the_cards(board: pd.DataFrame, data_set: DataSet) -> None:
    card = score("zclip", data_set)
    row = board[(board["profile"] == "full") & (board["detector"] == "zclip")].iloc[0]
    assert row["recall_0.05"] == card.headline.value
    assert row["skill"] == card.headline_skill.value
    assert row["recall_default_low"] == card.recall["default"].low
    assert row["stopped_0.01"] == card.recall["0.01"].stopped.value


def test_no_nan_hidden_behind_a_running_mean_is_found(board: pd.DataFrame) -> None:
    at_default = board.set_index(["profile", "detector"])["recall_default"]
    assert at_default["full", "nonfinite_loss"] == pytest.approx(1 / 3, abs=1e-12)
    assert at_default["filtered", "nonfinite_loss"] == 0.0


@pytest.fixture(scope="module")
def with_easy(tmp_path_factory: pytest.TempPathFactory, make_run: Any, make_trace: Any, write_data_set: Any) -> DataSet:
    """`loud` is an infinite loss after enormous gradients; each of ten `quiet` is a doubled loss."""
    runs, traces = [], []
    after = np.arange(120) >= 80
    for seed in range(20):
        runs.append(make_run(f"c{seed}", split="calibration", seed=seed + 100))
        traces.append(make_trace(f"c{seed}", seed=seed + 100))
        label = {"kind": "failing", "onset_step": 70, "visible_step": 85, "seed": seed, "family": "numerics"}
        loss = make_trace("", seed=seed)["loss"]
        loud = {"loss": np.where(after, np.inf, loss), "grad_norm": np.where(after, 1e4, 1.0 + 0.1 * np.sin(loss))}
        quiet = {"loss": np.where(after, 3.0 * loss, loss)}
        for name, curves in {"loud": loud, f"quiet{seed % 10}": quiet}.items():
            runs.append(make_run(f"{name}-{seed}", scenario=name, cause="high_lr", **label))
            traces.append(make_trace(f"{name}-{seed}", seed=seed, **curves))
        runs.append(make_run(f"h{seed}", seed=seed))
        traces.append(make_trace(f"h{seed}", seed=seed))
    return write_data_set(tmp_path_factory.mktemp("easy"), runs, traces)  # type: ignore[no-any-return]


def test_a_scenario_that_every_one_liner_solves_is_easy(with_easy: DataSet) -> None:
    board = leaderboard(with_easy, ["loss_over_minimum", "nonfinite_loss"], ["full"]).to_frame()
    assert board.attrs["easy"] == {"full": ["loud"]}
    assert board["detector"].tolist() == ["loss_over_minimum", "nonfinite_loss"]  # the other two are not shown
    assert board["recall_0.05"].tolist() == [1.0, 0.5]
    assert board["recall_without_easy"].tolist() == [1.0, 0.0]
    assert board["rank"].tolist() == [1, 2]  # ten scenarios against none: told apart


def test_recall_without_anything_is_undefined(with_easy: DataSet) -> None:
    card = score("nonfinite_loss", with_easy)
    assert recall_without(card, []).value == 0.5
    quiet = [f"quiet{i}" for i in range(10)]
    assert recall_without(card, quiet).value == 1.0
    assert np.isnan(recall_without(card, [*quiet, "loud"])).all()


def test_easy_needs_every_one_liner(with_easy: DataSet) -> None:
    cards = [score(name, with_easy) for name in ONE_LINERS]
    assert easy_scenarios(cards) == ["loud"]
    with pytest.raises(InputError, match="'nonfinite_loss' is missing"):
        easy_scenarios(cards[1:])


def test_easy_is_nine_runs_of_ten(with_easy: DataSet) -> None:
    card = score("nonfinite_loss", with_easy)
    by_recall = [replace(card, detector=name, recall_by_scenario={"a": 0.9, "b": 0.89}) for name in ONE_LINERS]
    assert easy_scenarios(by_recall) == ["a"]


def test_differences_are_found_where_they_are(with_easy: DataSet) -> None:
    first, second = score("loss_over_minimum", with_easy), score("nonfinite_loss", with_easy)
    p = compare(first, second)
    assert set(p) == {"recall_default", "recall_0.01", "recall_0.05", "diagnosis", "lead", "delay", "skill"}
    # Ten of eleven scenarios differ, all one way: 2 of 1,024 patterns of signs, and one of the least of seven tests.
    assert p["recall_0.05"] / (2 * 2**-10) in [pytest.approx(times) for times in (5, 6, 7)]
    assert max(p["lead"], p["delay"], p["skill"]) < 0.05
    assert p["diagnosis"] == 1.0  # neither names a cause


def test_cards_of_different_runs_are_not_compared(with_easy: DataSet, data_set: DataSet) -> None:
    with pytest.raises(InputError, match="measured on different runs"):
        compare(score("never", with_easy), score("never", data_set))


def test_one_broken_detector_takes_no_other_down(data_set: DataSet, tmp_path: Path) -> None:
    class Broken(Detector):
        name = "broken"

        def update(self, row: Row) -> bool:
            raise MemoryError("all of it")

    board = leaderboard(data_set, [Broken, "loss_over_minimum"], ["full"]).to_frame().set_index("detector")
    alone = leaderboard(data_set, ["loss_over_minimum"], ["full"]).to_frame().set_index("detector")
    assert board.loc["broken", "crashed"] == len(data_set)
    assert board.loc["broken", "recall_0.05"] == 0.0
    same = [column for column in alone.columns if column != "update_us"]
    pd.testing.assert_series_equal(board.loc["loss_over_minimum", same], alone.loc["loss_over_minimum", same])


def test_entries_that_fail_have_no_rank_and_move_none(data_set: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails(Detector):
        def update(self, row: Row) -> bool:
            raise ValueError

    cards = [score(name, data_set) for name in (*ONE_LINERS, "never")]
    failing = score(Fails, data_set)
    monkeypatch.setattr(Permutation, "p_value", lambda self, difference: 0.001 if difference.any() else 1.0)

    def ranks(*more: Scorecard) -> pd.Series:
        return table([*cards, *more]).set_index("detector")["rank"]

    alone = ranks()
    assert len(set(alone)) > 1
    beside = ranks(*(replace(failing, detector=f"fails_{i}") for i in range(100)))
    assert beside[alone.index].tolist() == alone.tolist()
    assert beside.drop(alone.index).isna().all()
    # One that failed on a few runs stays in.
    few = {"crashed": 1, "ok": sum(failing.statuses.values()) - 1}
    assert ranks(replace(failing, statuses=few)).notna().all()


def test_worthless_entries_move_no_rank(data_set: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven more that find nothing made the correction of all wider: every entry shared the first rank."""
    cards = [score(name, data_set) for name in (*ONE_LINERS, "never")]
    monkeypatch.setattr(Permutation, "p_value", lambda self, difference: 0.012 if difference.any() else 1.0)

    def ranks(*more: Scorecard) -> pd.Series:
        return table([*cards, *more]).set_index("detector")["rank"]

    alone = ranks()
    assert len(set(alone)) > 1
    worthless = (replace(cards[-1], detector=f"{letter}_worthless") for letter in "abcwxyz")
    assert ranks(*worthless)[alone.index].tolist() == alone.tolist()
