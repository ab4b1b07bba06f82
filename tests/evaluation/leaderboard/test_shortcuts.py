"""Entries that use a shortcut: what they find where there is one, and that they read no label but the train split's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.constants import BOARD_PROFILES, ONE_LINERS
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.cache import board_from
from trainwreck.evaluation.leaderboard.rescore import alarm_files, keep_alarms, rescore
from trainwreck.evaluation.leaderboard.run import board_cards, board_entries, score, score_all
from trainwreck.evaluation.leaderboard.shortcuts import SHORTCUTS, left_out, tuned
from trainwreck.evaluation.pages.leaderboard.board_files import write_board
from trainwreck.evaluation.replay.first_rows import FIRST
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.replay.profiles import PROFILES
from trainwreck.evaluation.replay.replay import replay

STEPS, ONSET, LATER = 130, 30, 36  # onsets of the train and of the test split
SEEDS = 8  # of each split
ENTRIES = ["clock", *SHORTCUTS]

Build = Callable[..., DataSet]
Rule = Callable[[str, int, str], bool]
"""Whether something holds of a run, given its base, its seed and its kind."""


def first_base(base: str, seed: int, kind: str) -> bool:
    return base == "a"


def half_of_each(base: str, seed: int, kind: str) -> bool:
    return seed % 2 == 0


def fails(base: str, seed: int, kind: str) -> bool:
    return kind == "failing"


def never(base: str, seed: int, kind: str) -> bool:
    return False


@pytest.fixture(scope="module")
def build(make_run: Any, make_trace: Any, write_data_set: Any, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Two bases, two runs a seed and base, four to calibrate on. failing: which fail; marked: which show it."""

    def made(failing: Rule, marked: Rule = never) -> DataSet:
        runs, traces = [], []
        for number, split in enumerate(("calibration", "train", "test")):
            for base in ("a", "b"):
                for seed in range(100 * number, 100 * number + SEEDS):
                    fault = split != "calibration" and failing(base, seed, "")
                    if split == "calibration" and failing is first_base and base == "a":
                        continue  # no run of this base is healthy
                    for copy in range(4 if split == "calibration" else 2):
                        facts: dict[str, Any] = {"base": base, "seed": seed, "split": split, "last_step": STEPS - 1}
                        onset = ONSET if split == "train" else LATER
                        if fault:
                            facts |= {
                                "kind": "failing",
                                "cause": "high_lr",
                                "scenario": "high_lr",
                                "outcome": "damaged",
                            }
                            facts |= {"onset_step": onset, "visible_step": onset + 4, "no_return_step": onset + 80}
                        run = make_run(f"{split}-{base}-{seed}-{copy}", **facts)
                        trace = make_trace(run["run_id"], seed=1000 * number + 10 * seed + copy, steps=STEPS)
                        if marked(base, seed, run["kind"]):
                            trace.signals["log_z"] = trace["log_z"] + np.float32(1)
                        runs.append(run)
                        traces.append(trace)
        data: DataSet = write_data_set(tmp_path_factory.mktemp("shortcuts"), runs, traces)
        return data

    return made


@pytest.fixture(scope="module")
def by_base(build: Build) -> DataSet:
    """All runs of base a fail, none of base b, and no row tells."""
    return build(first_base)


@pytest.fixture(scope="module")
def by_rows(build: Build) -> DataSet:
    """Half of the runs of each base fail, and their first rows tell."""
    return build(half_of_each, fails)


def alarms(data: DataSet, name: str, **options: Any) -> dict[str, tuple[int | None, list[float]]]:
    return {one.run_id: (one.first_alarm, one.scores.tolist()) for one in score(name, data, **options).alarms}


def test_clock_is_tuned_on_the_train_split_alone(by_rows: DataSet) -> None:
    # An alarm at 30 saves the most there. All failing test runs begin at 36, where it would be false.
    assert {first for first, _ in alarms(by_rows, "clock").values()} == {ONSET}


def test_where_the_base_tells_base_alone_is_near_perfect(by_base: DataSet) -> None:
    card = score("base_alone", moved(by_base, ONSET))
    assert card.recall["default"].value == 1.0
    assert card.headline.value > 0.9
    assert card.headline.stopped.value <= 0.05 + 1e-9
    found = alarms(by_base, "base_alone")
    assert found["test-a-200-0"] == (ONSET, [0.0] * ONSET + [1.0] * (STEPS - ONSET))
    assert found["test-b-200-0"] == (None, [0.0] * STEPS)


def moved(data: DataSet, onset: int) -> DataSet:
    """The same with the onset of each failing test run at a step."""
    runs = data.runs.copy()
    runs.loc[(runs["split"] == "test") & (runs["kind"] == "failing"), "onset_step"] = onset
    return DataSet(data.path, data.manifest, runs)


def test_where_the_base_does_not_tell_base_alone_is_no_better_than_the_clock(by_rows: DataSet) -> None:
    data = moved(by_rows, ONSET)
    clock, alone = score("clock", data), score("base_alone", data)
    assert clock.recall["default"].value == 1.0
    for point, recall in alone.recall.items():
        assert recall.value <= clock.recall[point].value
    assert {tuple(scores) for _, scores in alarms(data, "base_alone").values()} == {(0.0,) * ONSET + (0.5,) * 100}


def test_a_base_that_no_training_run_has_counts_as_the_average(by_base: DataSet) -> None:
    runs = by_base.runs.copy()
    runs.loc[(runs["split"] == "test") & (runs["base"] == "a"), "base"] = "c"
    found = alarms(DataSet(by_base.path, by_base.manifest, runs), "base_alone")
    assert found["test-a-200-0"] == (None, [0.0] * ONSET + [0.5] * (STEPS - ONSET))


@pytest.mark.parametrize("profile", ["full", "standard"])
def test_where_the_first_rows_tell_first_rows_is_near_perfect(by_rows: DataSet, profile: str) -> None:
    card = score("first_rows", moved(by_rows, ONSET), profile=profile)
    assert card.headline.value == card.recall["default"].value == 1.0
    assert card.headline.stopped.value <= 0.05 + 1e-9
    assert card.false_stop["healthy"].value == 0.0
    first = {"full": ONSET, "standard": 10 * (FIRST - 1)}[profile]
    assert {one.first_alarm for one in card.alarms} == {first, None}
    for one in card.alarms:
        before = one.steps < first
        assert set(one.scores[before]) == {0.0}
        assert len(set(one.scores[~before])) == 1
        assert 0.0 < one.scores[-1] < 1.0


def test_where_the_first_rows_do_not_tell_first_rows_finds_no_more_than_it_stops(by_base: DataSet) -> None:
    card = score("first_rows", moved(by_base, ONSET))
    assert abs(card.recall["default"].value - card.false_stop["healthy"].value) < 0.45  # sd of 16 and 16 runs: 0.18


def test_a_run_of_fewer_rows_says_nothing(by_rows: DataSet, make_trace: Any) -> None:
    made = tuned(by_rows, ["first_rows"], 3, ["full"], 10)["first_rows"].maker(by_rows.run("test-a-200-0"), "full")
    assert replay(made, make_trace("r", steps=FIRST - 1)).scores.tolist() == [0.0] * (FIRST - 1)
    scores = replay(made, make_trace("r", steps=FIRST + 1)).scores
    assert (scores > 0).tolist() == [False] * (FIRST - 1) + [True] * 2


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", SHORTCUTS)
def test_outputs_up_to_a_step_do_not_depend_on_what_follows(by_rows: DataSet, name: str, profile: str) -> None:
    run = by_rows.run("test-a-200-0")
    maker = tuned(by_rows, [name], 20, [profile], 5)[name].maker(run, profile)
    trace = by_rows.trace("test-a-200-0")
    whole = replay(maker, trace, profile, k=5)
    for stop in (7, 52, 101):
        cut = Trace("cut", {key: values[:stop] for key, values in trace.signals.items()}, trace.evaluated[:stop])
        found = replay(maker, cut, profile, k=5)
        assert found.scores.tolist() == whole.scores[: len(found.scores)].tolist()
    assert whole.scores[-1] > 0


LABELS = ["kind", "cause", "scenario", "family", "severity", "outcome", "onset_step", "visible_step", "no_return_step"]


def permuted(data: DataSet, split: str) -> DataSet:
    """The same with the labels of a split's runs dealt out anew."""
    runs = data.runs.copy()
    own = runs.index[runs["split"] == split]
    runs.loc[own, LABELS] = runs.loc[np.random.default_rng(1).permutation(own), LABELS].to_numpy()
    assert (runs.loc[own, "kind"] != data.runs.loc[own, "kind"]).any()
    return DataSet(data.path, data.manifest, runs)


@pytest.mark.parametrize("name", ENTRIES)
def test_no_label_of_the_test_is_read(by_rows: DataSet, name: str) -> None:
    assert alarms(permuted(moved(by_rows, LATER - 2), "test"), name) == alarms(by_rows, name)


@pytest.mark.parametrize("name", SHORTCUTS)
def test_labels_of_the_train_split_are(by_base: DataSet, name: str) -> None:
    assert alarms(permuted(by_base, "train"), name) != alarms(by_base, name)


def test_they_are_on_the_board_and_say_what_they_were_tuned_to(by_rows: DataSet) -> None:
    assert set(SHORTCUTS) < set(board_entries(by_rows))
    assert left_out(by_rows.runs) == ""
    for card in score_all(by_rows, list(SHORTCUTS)):
        assert str(card.about["rule"]).endswith(f"from step {ONSET} on")


@pytest.mark.parametrize("kinds", [["healthy"], ["failing"], []])
def test_without_something_to_tune_on_they_are_left_out(by_rows: DataSet, kinds: list[str]) -> None:
    runs = by_rows.runs
    data = DataSet(by_rows.path, by_rows.manifest, runs[(runs["split"] != "train") | runs["kind"].isin(kinds)])
    assert not set(SHORTCUTS) & set(board_entries(data))
    assert left_out(data.runs).startswith("not on the board: base_alone, first_rows (no train split with failing")
    for name in SHORTCUTS:
        with pytest.raises(InputError, match=f"detector {name}: there is no train split with failing and healthy"):
            score(name, data)


def test_they_take_no_seed(by_rows: DataSet) -> None:
    with pytest.raises(InputError, match="detector-seeds: 'first_rows' takes no seed"):
        score("first_rows", by_rows, seeds=2)


def test_stored_alarms_give_the_same_scores(by_rows: DataSet, tmp_path: Path) -> None:
    cards = score_all(by_rows, ENTRIES, profiles=["full", "minimal"])
    keep_alarms(tmp_path, by_rows, cards)
    again = {(card.detector, card.profile): card for card in rescore(by_rows, alarm_files([tmp_path]))}
    assert len(again) == len(cards)
    for card in cards:
        found = again[card.detector, card.profile]
        assert json.dumps(found.to_dict(), sort_keys=True) == json.dumps(card.to_dict(), sort_keys=True)


def test_two_processes_say_what_one_does(by_rows: DataSet) -> None:
    one, two = (score_all(by_rows, ENTRIES, profiles=["full", "filtered"], workers=workers) for workers in (1, 2))
    for card, other in zip(one, two, strict=True):
        assert [a.scores.tolist() for a in card.alarms] == [a.scores.tolist() for a in other.alarms]


def test_a_board_has_them_and_its_page_says_what_they_are(
    by_rows: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwreck.evaluation.leaderboard.run.builtin_detectors", lambda: dict.fromkeys(ONE_LINERS))
    keep_alarms(tmp_path / "alarms", by_rows, board_cards(by_rows))
    scores = board_from(by_rows.path, [tmp_path / "alarms"])
    assert {row["detector"] for row in scores["rows"]} == {*ONE_LINERS, *SHORTCUTS, *ORACLES}
    (page, *_) = write_board(tmp_path / "board", by_rows, scores, "trainwreck leaderboard")
    places = 5 * len(BOARD_PROFILES)  # four tables and details of each profile
    assert page.read_text(encoding="utf-8").count("uses a shortcut") == places * len(SHORTCUTS)
