"""Scorecards are there as soon as their detector has seen every run: what ends the harness takes none of them away."""

from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.leaderboard.cache import leaderboard_of
from trainwreck.evaluation.leaderboard.rescore import alarm_files, keep_card, rescore
from trainwreck.evaluation.leaderboard.run import score_all
from trainwreck.evaluation.scoring.scorecard import Scorecard

MINE = "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return row['loss'] > 5\n"


class Killed(BaseException):
    """Stands for whatever ends the harness."""


@pytest.mark.parametrize("twins_apart", [False, True])
def test_cards_that_are_finished_are_kept(data_set: DataSet, tmp_path: Path, twins_apart: bool) -> None:
    names = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(MINE)
        names.append(f"{tmp_path / name}.py:Mine")
    finished: list[Scorecard] = []
    runs: list[str] = []

    def tick(done: int, of: int, run_id: str) -> None:
        runs.append(run_id)
        if len(runs) > of - 2:  # the last run but one of the last detector
            raise Killed

    def keep(card: Scorecard) -> None:
        finished.append(card)
        keep_card(tmp_path / "kept", data_set, card)

    with pytest.raises(Killed):
        score_all(
            data_set, [names[0], "zclip", names[1]], progress=tick, finished=keep, twins_apart=twins_apart
        )  # fmt: skip
    assert [card.detector for card in finished] == ["zclip", "a.py:Mine"]
    again = rescore(data_set, alarm_files([tmp_path / "kept"]))
    assert {card.detector: card.headline for card in again} == {card.detector: card.headline for card in finished}


def test_each_profile_of_a_board_is_kept_when_it_is_finished(data_set: DataSet, tmp_path: Path) -> None:
    def tick(done: int, of: int, run_id: str) -> None:
        if done > 0.75 * of:
            raise Killed

    with pytest.raises(Killed):
        leaderboard_of(data_set.path, profiles=["full", "minimal"], tick=tick, alarms=tmp_path)
    kept = {path.name.split("-")[-2] for path in tmp_path.iterdir()}
    assert kept == {"full"}


def test_cards_come_in_the_order_given_whatever_is_finished_first(data_set: DataSet, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(MINE)
    cards = score_all(data_set, [f"{tmp_path / 'a.py'}:Mine", "zclip"], profiles=["full", "minimal"], workers=2)
    assert [(card.profile, card.detector) for card in cards] == [
        (profile, name) for profile in ("full", "minimal") for name in ("a.py:Mine", "zclip")
    ]
