"""Detectors that look for what no row says. As entries are ranked none finds it; without that each does."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.leaderboard.run import leaderboard, score_all
from trainwreck.evaluation.leaderboard.submission import row_by_row
from trainwreck.evaluation.replay.alarms import CONFINEMENT
from trainwreck.evaluation.replay.replay import replay_order
from trainwreck.evaluation.replay.sandbox.limits import Limits

BEGIN = (
    "import json, os, sys\nfrom pathlib import Path\n\n\nclass Mine:\n"
    "    def reset(self, context):\n        {reset}\n\n"
)
# Alarms at the onset of a run that it knows by the loss of its first row; never, where it has found no labels.
MATCHES = BEGIN + (
    "    def update(self, row):\n        if row['step'] == 0:\n            self.onset = None\n            try:\n"
    "                self.onset = json.loads(find().read_text()).get(str(row['loss']))\n"
    "            except OSError: pass\n        return row['step'] == self.onset\n\n\n"
)
CHEATS = {
    "reads_ahead": BEGIN.format(reset="pass") + "    def update(self, row):\n        return row['loss'] < 8 and any(\n"
    "            seen['loss'] > 8 for seen in sys._getframe(1).f_locals['rows'])\n",
    "knows_the_folder": MATCHES.format(reset="pass") + "def find(): return Path({folder!r}, 'labels.json')\n",
    "asks_proc": MATCHES.format(reset="pass")
    + "def find():\n    for process in Path('/proc').glob('[0-9]*'):\n        try:\n"
    "            if (process / 'cwd' / 'labels.json').is_file(): return process / 'cwd' / 'labels.json'\n"
    "        except OSError: continue\n    raise FileNotFoundError\n",
    "counts": BEGIN.format(reset="COUNT.append(0)")
    + "    def update(self, row):\n        return row['step'] == 15 and len(COUNT) - 1 in FAILING\n\n\n"
    "COUNT, FAILING = [], {failing!r}\n",
    "links": MATCHES.format(reset="pass")
    + "def find():\n    if not Path('door').is_symlink(): os.symlink({folder!r}, 'door')\n"
    "    return Path('door', 'labels.json')\n",
    "links_hard": MATCHES.format(reset="pass")
    + "def find():\n    if not Path('own').exists(): os.link(os.path.join({folder!r}, 'labels.json'), 'own')\n"
    "    return Path('own')\n",
    "sends_a_child": MATCHES.format(reset="pass")
    + "def find():\n    import subprocess\n    with open('own', 'wb') as out:\n"
    "        subprocess.run(['cat', os.path.join({folder!r}, 'labels.json')], stdout=out, start_new_session=True)\n"
    "    if not os.path.getsize('own'): raise FileNotFoundError\n    return Path('own')\n",
    "compares": BEGIN.format(reset="self.own = []; self.like = list(RUNS); RUNS.append(self.own)")
    + "    def update(self, row):\n        self.own.append(row['loss'])\n        at = len(self.own) - 1\n"
    "        like = [run for run in self.like if len(run) > at and run[at] == row['loss']]\n"
    "        left, self.like = at > 0 and len(like) < len(self.like), like\n        return left\n\n\nRUNS = []\n",
}


BY_LANDLOCK = ("knows_the_folder", "asks_proc", "links", "links_hard", "sends_a_child")


@pytest.fixture
def data(tmp_path: Path, write_small_data_set: Any, monkeypatch: pytest.MonkeyPatch) -> DataSet:
    found: DataSet = write_small_data_set(tmp_path / "data")
    failing = found.runs[found.runs["kind"] == "failing"]
    # Of a run and its twin the first rows are the same: the one that fails is meant.
    onsets = {str(float(found.trace(run)["loss"][0])): int(at) for run, at in failing["onset_step"].items()}
    (found.path / "labels.json").write_text(json.dumps(onsets))
    monkeypatch.chdir(found.path)
    return found


def code(data: DataSet, tmp_path: Path) -> list[str]:
    order = replay_order(data.runs["run_id"])
    failing = {place for place, run in enumerate(order) if data.runs.loc[run, "kind"] == "failing"}
    found = []
    for name, text in CHEATS.items():
        file = tmp_path / "entries" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace("{folder!r}", repr(str(data.path))).replace("{failing!r}", repr(failing)))
        found.append(f"{file}:Mine")
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="confined on Linux")
def test_no_cheat_is_better_than_one_that_never_alarms(data: DataSet, tmp_path: Path) -> None:
    entries = code(data, tmp_path)
    board = leaderboard(data, entries, ["full"])
    assert len(board.cards) == len(entries) + 4
    for card in board.cards[: len(entries)]:
        layers = card.about[CONFINEMENT]
        if card.detector.removesuffix(".py:Mine") in BY_LANDLOCK and isinstance(layers["landlock"], str):
            continue  # said on the scorecard
        alarmed = {alarms.run_id for alarms in card.alarms if alarms.first_alarm is not None}
        if card.detector == "counts.py:Mine":  # it alarms, but not where it should: runs come in an order that is drawn
            assert alarmed != set(data.runs["run_id"][data.runs["kind"] == "failing"])
            continue
        assert (card.detector, card.recall["default"].value, alarmed) == (card.detector, 0.0, set())


def test_nor_as_it_is_submitted(data: DataSet, tmp_path: Path) -> None:
    for name in (code(data, tmp_path)[0], code(data, tmp_path)[-1]):
        (card,) = row_by_row(data, name, ["full"], "blind")
        assert (card.detector, card.recall["default"].value) == (card.detector, 0.0)


def test_each_is_one_where_nothing_is_done_about_it(
    data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_bytes", lambda: b"")
    for card in score_all(data, code(data, tmp_path), limits=Limits(batch=32, confined=False)):
        first = {alarms.run_id: alarms.first_alarm for alarms in card.alarms}
        failing = data.runs["run_id"][data.runs["kind"] == "failing"]
        assert any(first[run] is not None for run in failing), (card.detector, card.statuses, card.notes)
