"""People are scored as detectors are: who answers as a detector did has its row, and the room is their majority."""

from dataclasses import replace

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load_labels
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.rescore import rescore
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.leaderboard.submission import Facts, stored_in
from trainwreck.evaluation.pages.quiz.answers import Answer
from trainwreck.evaluation.pages.quiz.classroom.collect import quizzes_of
from trainwreck.evaluation.pages.quiz.classroom.entry import submit_room
from trainwreck.evaluation.pages.quiz.classroom.people import room_alarms
from trainwreck.evaluation.pages.quiz.classroom.scores import COLUMNS, results
from trainwreck.evaluation.pages.quiz.classroom.summary import confusions, run_rows
from trainwreck.evaluation.pages.quiz.key import read_key, write_key
from trainwreck.evaluation.pages.quiz.quiz import make
from trainwreck.evaluation.pages.quiz.recipe import Part
from trainwreck.evaluation.replay.alarms import OK
from trainwreck.evaluation.replay.profiles import visible_step
from trainwreck.evaluation.scoring.scorecard import Scorecard

FACTS = Facts("a-class", "1", "https://example.org/answers", "CC-BY-4.0", "teacher@example.org", True)


def by_name(found):
    return {row["name"]: row for row in found.rows}


def scores(row):
    return {name: row[f"{name}{end}"] for name in COLUMNS for end in ("", "_low", "_high")}


def test_who_answers_as_a_detector_did_has_its_row(quiz, sheet_of):
    def as_playbook(number, run_id):
        alarms = quiz.said["playbook"][run_id]
        stopped = alarms.first is not None
        return Answer(number, "stop" if stopped else "healthy", alarms.first, alarms.causes[:3] if stopped else (), 5)

    known = replace(
        quiz, families={**quiz.families, **{c: "?" for s in quiz.said["playbook"].values() for c in s.causes}}
    )
    found = by_name(results([sheet_of(known, as_playbook)], {known.recipe.id: known}))
    assert scores(found["Ada"]) == scores(found["playbook"])
    assert found["Ada"]["recall"] > 0.5 > found["never"]["recall"]
    assert found["playbook"]["kind"] == "detector"


def test_a_detector_has_the_scores_of_its_scorecard(quiz, shipped, sheet_of, late):
    row = by_name(results([sheet_of(quiz, late(0))], {quiz.recipe.id: quiz}))["grad_norm_zscore"]
    drawn = DataSet(shipped.path, shipped.manifest, shipped.runs.loc[quiz.runs["run_id"]])
    card = score("grad_norm_zscore", drawn)
    assert [row[f"recall{end}"] for end in ("", "_low", "_high")] == list(card.recall["default"][:3])
    own = card.points["default"]
    assert row["skill"] == own.skill["rollback"][0.1].value
    assert row["stopped"] == card.false_stop["healthy"].value
    assert row["stopped_look_alike"] == card.false_stop["look-alike"].value
    assert row["lead"] == own.lead.value
    assert row["delay_share"] == own.delay["from_onset"]["restricted_mean_share"].value
    assert row["top1"] == own.diagnosis["cause"]["1"]["macro"].value


def test_who_is_right_at_once_has_everything_and_who_says_nothing_has_none(quiz, sheet_of, late, nothing):
    found = by_name(
        results(
            [sheet_of(quiz, late(0)), sheet_of(quiz, nothing, "Bob", 2), sheet_of(quiz, late(0, ("data",)), "Cy", 3)],
            {quiz.recipe.id: quiz},
        )
    )
    best, none = found["Ada"], found["Bob"]
    assert [best[name] for name in ("recall", "skill", "lead", "top1", "top3", "family")] == [1.0] * 6
    assert best["stopped"] == best["stopped_look_alike"] == 0.0
    assert none["recall"] == 0.0
    assert none["crashed"] == 12
    assert found["Cy"]["recall"] == 1.0
    assert found["Cy"]["top1"] == 0.0
    assert 0.0 < found["Cy"]["family"] < 1.0
    assert found["average player"]["recall"] == pytest.approx(2 / 3)
    assert found["room"]["recall"] == 1.0


def test_a_cause_that_no_run_has_may_still_be_of_the_right_family(quiz, sheet_of, late):
    assert "gradients_not_cleared" in set(quiz.runs["cause"])
    assert "high_lr" not in set(quiz.runs["cause"])
    row = by_name(results([sheet_of(quiz, late(0, ("high_lr",)))], {quiz.recipe.id: quiz}))["Ada"]
    assert row["top1"] == 0.0
    assert row["family"] == pytest.approx(1 / quiz.runs.loc[quiz.runs["kind"] == "failing", "family"].nunique())


def test_a_later_stop_never_scores_more(quiz, sheet_of, late):
    rows = [
        by_name(results([sheet_of(quiz, late(steps))], {quiz.recipe.id: quiz}))["Ada"] for steps in (0, 2, 8, 30, 120)
    ]
    for name in ("recall", "skill", "lead", "top1"):
        values = [row[name] for row in rows]
        assert values == sorted(values, reverse=True)
        assert values[0] > values[-1]


def answers_at(*steps):
    return [Answer(1, "healthy") if step is None else Answer(1, "stop", step) for step in steps]


@pytest.mark.parametrize(
    ("steps", "first"),
    [
        ((10, 20, 30), 20), ((10, 20, 30, 40), 30), ((10, None, None), None), ((10, 12, None), 12), ((7,), 7),
        ((10, None), None),
    ],
)  # fmt: skip
def test_the_room_stops_when_more_than_half_have(steps, first):
    alarms = room_alarms("r", range(60), answers_at(*steps))
    assert alarms.first_alarm == first
    for at, value in zip(alarms.steps.tolist(), alarms.scores.tolist(), strict=True):
        assert value == sum(step is not None and step <= at for step in steps) / len(steps)


def test_the_room_names_what_those_who_stopped_named():
    answers = [
        Answer(1, "stop", 10, ("b", "a")), Answer(1, "stop", 11, ("a",)), Answer(1, "stop", 12, ("b",)),
        Answer(1, "stop", 50, ("late",)),
    ]  # fmt: skip
    assert room_alarms("r", range(60), answers).causes == ("b", "a")
    assert room_alarms("r", range(60), []).status != OK


def test_the_key_is_all_that_scores_take(quiz, sheet_of, late, tmp_path):
    write_key(tmp_path / "quiz.key.json", quiz)
    again = read_key(tmp_path / "quiz.key.json")
    sheets = [sheet_of(quiz, late(3))]
    assert results(sheets, {quiz.recipe.id: again}).rows == results(sheets, {quiz.recipe.id: quiz}).rows
    assert again.families == quiz.families


def test_a_key_of_another_quiz_or_a_damaged_one_is_refused(quiz, sheet_of, late, tmp_path):
    write_key(tmp_path / "quiz.key.json", quiz)
    write_key(tmp_path / "other.key.json", replace(quiz, recipe=replace(quiz.recipe, seed=8)))
    sheet, keys = sheet_of(quiz, late(3)), [tmp_path / "quiz.key.json", tmp_path / "other.key.json"]
    with pytest.raises(InputError, match=r"other\.key\.json: quiz_id: .* has no answers here"):
        quizzes_of([sheet], keys, tmp_path, dict)
    with pytest.raises(InputError, match=r"Ada: quiz_id: .* is of none of the keys"):
        quizzes_of([sheet], keys[1:], tmp_path, dict)
    text = (tmp_path / "quiz.key.json").read_text(encoding="utf-8")
    for old, new, complaint in (
        ("trainwreck-quiz-key", "x", "not a key"), ('"version": 1', '"version": 9', "version: 9 is not allowed"),
        ('"seed": 7', '"seed": 9', "quiz_id"), ('"families": {', '"family": {', "damaged"),
    ):  # fmt: skip
        (tmp_path / "bad.json").write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(InputError, match=complaint):
            read_key(tmp_path / "bad.json")


def test_answers_to_other_telemetry_are_refused(quiz, sheet_of, late, shipped):
    other = replace(sheet_of(quiz, late(3)), recipe=replace(quiz.recipe, telemetry="f" * 64))
    with pytest.raises(InputError, match=r"quiz\.telemetry: ffffffffffff is not that of .*; allowed: --data"):
        quizzes_of([other], [], shipped.path, lambda data: (quiz.families, None))


def test_profiles_are_not_mixed(quiz, sheet_of, late):
    one, other = sheet_of(quiz, late(3)), sheet_of(quiz, late(3), "Bob", 2)
    thin = replace(other, recipe=replace(quiz.recipe, profile="minimal"))
    with pytest.raises(InputError, match=r"quiz\.profile: 'minimal' is not that of"):
        results([one, thin], {quiz.recipe.id: quiz})


def test_the_summary_counts_what_people_did(quiz, sheet_of, late):
    sheets = [
        sheet_of(quiz, late(0)),
        sheet_of(quiz, late(2, ("no_warmup",)), "Bob", 2),
        sheet_of(quiz, lambda number, run_id: Answer(number, "stop", 0), "Cy", 3),
    ]
    found = results(sheets, {quiz.recipe.id: quiz})
    rows = {row["run_id"]: row for row in run_rows(found)}
    for run_id, truth in quiz.runs.iterrows():
        row = rows[run_id]
        assert row["answered"] == 3
        if truth["kind"] != "failing":
            assert row["wrong"] == row["stopped"] == 1
            continue
        timely = [0, 2] if truth["visible_step"] + 2 < truth["no_return_step"] else [0]
        assert (row["in_time"], row["too_early"]) == (len(timely), 1)
        assert row["mean_delay_visible"] == np.mean(timely)
        assert row["right_cause"] == 1
    wrong = confusions(found)
    assert {pair["named"] for pair in wrong} == {"no_warmup"}
    assert sum(pair["times"] for pair in wrong) == sum(row["in_time"] == 2 for row in rows.values())
    shares = [row["wrong"] / row["answered"] for row in run_rows(found)]
    assert shares == sorted(shares, reverse=True)


@pytest.fixture(scope="module")
def parts(shipped, recipe, quiz):
    dealt = [replace(recipe, runs=0, part=Part(k, 3)) for k in range(1, 4)]
    return {one.id: make(shipped, one, quiz.families, []) for one in dealt}


def test_a_room_that_saw_every_run_stands_on_the_board(parts, sheet_of, late, shipped, tmp_path):
    sheets = [sheet_of(one, late(1, quiz=one), f"player {i}", i) for i, one in enumerate(parts.values())]
    found = results(sheets, parts)
    folder = submit_room(tmp_path, FACTS, shipped, found)
    (card,) = rescore(load_labels(shipped.path), stored_in([folder]))
    assert isinstance(card, Scorecard)
    assert card.detector == "a-class"
    assert card.about["kind"] == "people"
    assert card.counts["crashed"] == 0
    # Within the budget too, since the room was asked about the calibration runs and stopped none.
    assert card.recall["default"].value > 0.8
    assert card.headline.value == pytest.approx(card.recall["default"].value, abs=1e-12)
    assert card.points["default"].diagnosis["cause"]["1"]["macro"].value > 0.8


def test_a_room_that_did_not_is_told_what_is_missing(parts, sheet_of, late, shipped, tmp_path):
    first = next(iter(parts.values()))
    found = results([sheet_of(first, late(1, quiz=first))], {first.recipe.id: first})
    with pytest.raises(InputError, match=r"submission: 45 of 68 runs have no answer, .* parts 1/M to M/M"):
        submit_room(tmp_path, FACTS, shipped, found)
    assert list(tmp_path.iterdir()) == []


def test_the_visible_step_is_that_of_the_profile():
    by_profile = {"visible_step": 5, "visible_profiles": '{"full": 5, "minimal": 20}'}
    assert [visible_step(by_profile, name) for name in ("full", "minimal", "standard")] == [5, 20, None]
    assert visible_step({"visible_step": 5, "visible_profiles": None}, "minimal") == 5  # of an older key
    assert visible_step({"visible_step": None, "visible_profiles": "{}"}, "minimal") is None
