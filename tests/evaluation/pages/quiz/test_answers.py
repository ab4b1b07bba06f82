"""Exports are read as they were written; what was edited, is of another quiz or can't be is refused by field."""

import json
from dataclasses import replace
from importlib.resources import files

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.quiz import answers as module
from trainwreck.evaluation.pages.quiz.answers import Answer, check_sheet, checksum, read_sheet, write_sheet
from trainwreck.evaluation.pages.quiz.classroom.collect import collect
from trainwreck.evaluation.pages.quiz.recipe import Recipe

SCHEMA = json.loads((files("trainwreck.evaluation.pages.quiz") / "answers.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def sheet(quiz, sheet_of, late):
    return sheet_of(quiz, late(3))


def test_an_export_is_read_as_it_was_written(sheet, quiz, tmp_path):
    write_sheet(tmp_path / "a.json", sheet)
    again = read_sheet(tmp_path / "a.json")
    assert replace(again, path=None) == sheet
    check_sheet(again, quiz)


def test_the_schema_is_what_is_written_and_checked(sheet, tmp_path):
    write_sheet(tmp_path / "a.json", sheet)
    content = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    answer = SCHEMA["properties"]["answers"]["items"]
    quiz = SCHEMA["properties"]["quiz"]
    for part, rule, fields in (
        (content, SCHEMA, module.FIELDS), (content["answers"][0], answer, module.ANSWER_FIELDS),
        (content["quiz"], quiz, Recipe.FIELDS),
    ):  # fmt: skip
        assert set(part) == set(rule["properties"]) == set(rule["required"]) == set(fields)
        assert rule["additionalProperties"] is False
    assert SCHEMA["properties"]["format"]["const"] == content["format"]
    assert tuple(answer["properties"]["said"]["enum"]) == module.VERDICTS
    assert answer["properties"]["named"]["maxItems"] == module.MOST_NAMED
    assert SCHEMA["properties"]["player"]["maxLength"] == module.LONGEST_NAME


def edit(**fields):
    return lambda content: content.update(fields)


def of_answer(place, **fields):
    return lambda content: content["answers"][place].update(fields)


def of_quiz(**fields):
    return lambda content: content["quiz"].update(fields)


STOPPED = "answers[{stop}]"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (edit(format="x"), "not answers"),
        (edit(version=2), "version: 2 is not allowed; allowed: 1"),
        (edit(more=1), "field: 'more' is not allowed"),
        (lambda content: content.pop("sitting"), "sitting: missing"),
        (edit(quiz_id="0" * 16), "quiz_id: '0000000000000000' is not that of its quiz"),
        (edit(player=""), "player: '' is not allowed; allowed: one line of 1 to 60 letters"),
        (edit(player="a\nb"), "player: 'a\\nb' is not allowed"),
        (edit(player="Eve"), "checksum: edited or damaged"),
        (edit(sitting="xyz"), "sitting: 'xyz' is not allowed"),
        (edit(answers={}), "answers: {} is not allowed; allowed: a list"),
        (edit(answers=[1]), "answers[0]: 1 is not allowed"),
        (edit(quiz=[]), "quiz: [] is not allowed"),
        (of_quiz(seed="7"), "quiz.seed: '7' is not allowed"),
        (of_quiz(profile="ful"), "quiz.profile: 'ful' is not allowed"),
        (of_quiz(part="9/3"), "quiz.runs: 12 is not allowed"),
        (of_quiz(seed=8), "quiz_id"),
        (of_answer(0, run=0), "answers[0].run: 0 is not allowed"),
        (of_answer(0, run=True), "answers[0].run: True is not allowed"),
        (of_answer(0, said="perhaps"), "answers[0].said: 'perhaps' is not allowed; allowed: stop, healthy, nothing"),
        (of_answer(0, said="healthy", step=4), "answers[0].step: 4 is not allowed"),
        (of_answer(0, said="stop", step=None), "answers[0].step: None is not allowed"),
        (of_answer(0, said="stop", step=3, named=["a", "b", "c", "d"]), "answers[0].named"),
        (of_answer(0, said="stop", step=3, named=["a", "a"]), "answers[0].named"),
        (of_answer(0, said="healthy", step=None, named=["a"]), "answers[0].named"),
        (of_answer(0, seconds=-1), "answers[0].seconds: -1 is not allowed"),
        (of_answer(0, hint=1), "answers[0]: field: 'hint' is not allowed"),
        (lambda content: content["answers"].pop(), "checksum: edited or damaged"),
    ],
)  # fmt: skip
def test_what_no_page_exports_is_refused_by_file_and_field(change, complaint, sheet, tmp_path):
    path = tmp_path / "a.json"
    write_sheet(path, sheet)
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_sheet(path)
    assert str(error.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(error.value)


def test_moving_a_stop_by_one_step_is_seen(sheet, tmp_path):
    path = tmp_path / "a.json"
    write_sheet(path, sheet)
    stop = next(answer.step for answer in sheet.answers if answer.step)
    path.write_text(
        path.read_text(encoding="utf-8").replace(f'"step": {stop}', f'"step": {stop - 1}'), encoding="utf-8"
    )
    with pytest.raises(InputError, match="checksum: edited or damaged"):
        read_sheet(path)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Answer(1, "stop", 4000), "run 1: step: 4000 is not allowed; allowed: a step of a row that was shown, 0 to"),
        (Answer(1, "stop", 5, ("mask_mising",)), "run 1: named: 'mask_mising' is not allowed; did you mean"),
        (Answer(2, "healthy"), "answers: not one for each of the runs 1 to 12"),
    ],
)  # fmt: skip
def test_what_the_quiz_can_not_have_got_is_refused(answer, complaint, sheet, quiz):
    changed = replace(sheet, answers=(answer, *sheet.answers[1:]))
    with pytest.raises(InputError) as error:
        check_sheet(changed, quiz)
    assert complaint in str(error.value)


def test_steps_between_the_rows_of_a_profile_are_refused(sheet, quiz):
    thin = replace(quiz, recipe=replace(quiz.recipe, profile="minimal"))
    changed = replace(sheet, recipe=thin.recipe, answers=(Answer(1, "stop", 15), *sheet.answers[1:]))
    with pytest.raises(InputError, match=r"run 1: step: 15 is not allowed; allowed: .* by 10"):
        check_sheet(changed, thin)


def test_answers_to_another_quiz_are_refused(sheet, quiz):
    with pytest.raises(InputError, match="is another quiz"):
        check_sheet(replace(sheet, recipe=replace(sheet.recipe, seed=8)), quiz)


def test_a_player_or_a_sitting_counts_once(sheet, tmp_path):
    for name, one in (
        ("a", sheet), ("copy", sheet), ("b", replace(sheet, player="ada ", sitting="0" * 16)),
    ):  # fmt: skip
        write_sheet(tmp_path / name / "x.json", replace(one, player=one.player.strip()))
    with pytest.raises(InputError, match=r"copy/x\.json: sitting: .* is in .*a/x\.json already"):
        collect([tmp_path / "a", tmp_path / "copy" / "x.json"])
    with pytest.raises(InputError, match=r"b/x\.json: player: 'ada' is in .*a/x\.json already"):
        collect([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(InputError, match=r"holds no \.json file"):
        collect([tmp_path])


def test_the_checksum_speaks_of_every_field(sheet):
    found = {checksum(sheet)}
    first = sheet.answers[0]
    for answer in (replace(first, said="nothing"), replace(first, seconds=99), replace(first, named=("data",))):
        found.add(checksum(replace(sheet, answers=(answer, *sheet.answers[1:]))))
    found |= {checksum(replace(sheet, player="B")), checksum(replace(sheet, sitting="2" * 16))}
    assert len(found) == 6
