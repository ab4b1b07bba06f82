"""Two entries of one name are two, and nobody has the name of a built-in one."""

from pathlib import Path
from typing import Any

from trainwreck.evaluation.detectors.base import Detector, Row
from trainwreck.evaluation.leaderboard.ranking import beside
from trainwreck.evaluation.leaderboard.run import leaderboard, score_all
from trainwreck.evaluation.live.monitor import Monitor

ALARMS = "class D:\n    def reset(self, context): pass\n    def update(self, row): return {answer}\n"


def two(folder: Path) -> list[str]:
    found = []
    for name, answer in (("a", "row['loss'] > 8"), ("b", "False")):
        (folder / name).mkdir()
        (folder / name / "m.py").write_text(ALARMS.format(answer=answer))
        found.append(f"{folder / name / 'm.py'}:D")
    return found


def test_two_files_of_one_name_have_their_own_scores(tmp_path: Path, write_small_data_set: Any) -> None:
    data = write_small_data_set(tmp_path / "data")
    first, second = score_all(data, two(tmp_path))
    assert (first.detector, second.detector) == ("m.py:D", "m.py:D (2)")
    assert (first.recall["default"].value, second.recall["default"].value) == (1.0, 0.0)
    by_workers = score_all(data, [f"{tmp_path}/{name}/m.py:D" for name in "ba"], workers=2)
    assert [card.recall["default"].value for card in by_workers] == [0.0, 1.0]
    board = leaderboard(data, [f"{tmp_path}/{name}/m.py:D" for name in "ab"], ["full"]).to_frame().set_index("detector")
    assert board.loc[["m.py:D", "m.py:D (2)"], "recall_default"].tolist() == [1.0, 0.0]


def test_one_that_calls_itself_as_a_built_in_one(tmp_path: Path, write_small_data_set: Any) -> None:
    class Impostor(Detector):
        name = "zclip"

        def update(self, row: Row) -> bool:
            return True

    class Oracle(Impostor):
        name = "oracle_at_v"

    data = write_small_data_set(tmp_path / "data")
    cards = score_all(data, [Impostor, "zclip", Oracle, Impostor()])
    names = ["zclip (Impostor)", "zclip", "oracle_at_v (Oracle)", "zclip (Impostor) (2)"]
    assert [card.detector for card in cards] == names
    assert all(alarms.first_alarm == 0 for alarms in cards[0].alarms)
    assert any(alarms.first_alarm is None for alarms in cards[1].alarms)
    assert {row["detector"] for row in beside(cards, "zclip")} == {*names} - {"zclip"}  # no oracle


def test_beside_a_run_too(tmp_path: Path) -> None:
    monitor = Monitor(two(tmp_path))
    try:
        assert [seat.name for seat in monitor.seats] == ["m.py:D", "m.py:D (2)"]
        assert [alarm.detector for alarm in monitor.update({"loss": 9.0}, 1)] == ["m.py:D"]
    finally:
        monitor.close()
