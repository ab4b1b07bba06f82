"""`trainwreck quiz` and `trainwreck quiz grade`, as a teacher uses them."""

import io
import json
import re
from dataclasses import replace

import pytest

from trainwreck.evaluation.pages.quiz.answers import Answer, Sheet, write_sheet
from trainwreck.evaluation.pages.quiz.key import read_key

ONE = ("--detector", "zclip")


@pytest.fixture(scope="module")
def made(call, tmp_path_factory):
    """A sealed quiz of six runs, and two answers to it."""
    root = tmp_path_factory.mktemp("class")
    result = call(
        "quiz", "--runs", "6", "--sealed", "--choices", "set", *ONE, "--out", root / "six.html", "--no-open", "--json"
    )
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    assert facts["quiz"] == str(root / "six.html")
    assert facts["key"] == str(root / "six.key.json")
    quiz = read_key(root / "six.key.json")
    assert quiz.recipe.id == facts["id"]
    for i, name in enumerate(("Ada", "Bob")):
        answers = tuple(Answer(run, "stop", 100 + i, ("data",), 5) for run in range(1, 7))
        write_sheet(root / "answers" / f"{name}.json", Sheet(name, f"{i:016x}", quiz.recipe, answers))
    return root


def test_the_same_command_makes_the_same_page(call, made, here):
    result = call("quiz", "--runs", "6", "--sealed", "--choices", "set", *ONE, "--out", "six.html", "--no-open")
    assert result.code == 0, result.err
    assert (here / "six.html").read_text(encoding="utf-8") == (made / "six.html").read_text(encoding="utf-8")
    assert result.out.splitlines()[1].startswith("key:  six.key.json")


def test_a_class_is_scored_with_the_key_as_with_the_data_set(call, made, here):
    with_key = call("quiz", "grade", made / "answers", "--key", made / "six.key.json", "--json")
    with_data = call("quiz", "grade", made / "answers", *ONE, "--json")
    assert with_key.code == with_data.code == 0, with_key.err + with_data.err
    assert json.loads(with_key.out) == json.loads(with_data.out)
    rows = {row["name"]: row for row in json.loads(with_key.out)["rows"]}
    assert set(rows) == {"Ada", "Bob", "average player", "room", "zclip"}
    assert rows["Ada"]["stopped"] == rows["room"]["stopped"] == 1.0


def test_the_summary_is_a_page_and_tables(call, made, here):
    result = call("quiz", "grade", made / "answers", "--key", made / "six.key.json", "--out", "class")
    assert result.code == 0, result.err
    assert result.out.endswith("page: class/class.html\n")
    page = (here / "class" / "class.html").read_text(encoding="utf-8")
    assert "Guess the failure: 2 players, 6 runs" in page
    people = (here / "class" / "people.csv").read_text(encoding="utf-8").splitlines()
    names = re.findall(r'scope="row">([^<]*)<', page.split("<h2>")[1])
    assert [line.split(",")[0] for line in people[1:]] == names
    assert len((here / "class" / "runs.csv").read_text(encoding="utf-8").splitlines()) == 7


def test_a_name_is_text_in_the_page(call, made, here):
    quiz = read_key(made / "six.key.json")
    answers = tuple(Answer(run, "healthy") for run in range(1, 7))
    write_sheet(here / "a.json", Sheet("<b>&", "3" * 16, quiz.recipe, answers))
    result = call("quiz", "grade", "a.json", "--key", made / "six.key.json", "--out", "class")
    assert result.code == 0, result.err
    page = (here / "class" / "class.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page


def test_play_in_a_pipe(call, here, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("20\nstop\n" + "healthy\n" * 3))
    result = call("quiz", "--runs", "4", "--terminal", "--player", "Ada", "--choices", "set", *ONE)
    assert result.code == 0, result.err
    assert result.out.endswith("answers: answers.json\n")
    content = json.loads((here / "answers.json").read_text(encoding="utf-8"))
    assert [one["said"] for one in content["answers"]] == ["stop", "healthy", "healthy", "healthy"]
    again = call("quiz", "grade", "answers.json", *ONE)
    assert again.code == 0, again.err
    assert "Ada" in again.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("quiz", "nowhere"), "data set: 'nowhere' is not a folder"),
        (("quiz", "--runs", "3"), "runs: 3 is not allowed; allowed: 4 and more"),
        (("quiz", "--speed", "3"), "speed: 3 is not allowed; allowed: 2, 5, 10, 25, 60"),
        (("quiz", "--part", "3/2"), "part: '3/2' is not allowed; allowed: K/M"),
        (("quiz", "--profile", "ful"), "profile: 'ful' is not allowed; did you mean 'full'?"),
        (("quiz", "--family", "dat"), "family: 'dat' is not allowed; did you mean 'data'?"),
        (("quiz", "--detector", "zclop"), "detector: 'zclop' is not allowed; did you mean 'zclip'?"),
        (("quiz", "--terminal", "--sealed"), "terminal: not allowed beside --beginner, --sealed or --json"),
        (("quiz", "--terminal", "--beginner"), "terminal: not allowed beside --beginner, --sealed or --json"),
        (("quiz", "--player", "Ada"), "player: not allowed without --terminal"),
        (("quiz", "--choices", "some"), "choices: 'some' is not allowed; allowed: all, set"),
        (("quiz", "grade"), "Missing argument 'EXPORTS...'"),
        (("quiz", "grade", "none.json"), "none.json: missing"),
        (("quiz", "grade", "."), "exports: '.' holds no .json file"),
        (("quiz", "grade", "a.json", "--submission", "us"), "code: missing; a submission needs --code and --contact"),
        (
            ("quiz", "grade", "a.json", "--submission", "Us!", "--code", "https://example.org", "--contact", "me"),
            "submission: name: 'Us!' is not allowed",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(words, complaint, call, here):
    result = call(*words)
    assert result.code == 2
    lines = [line for line in result.err.splitlines() if line.startswith("trainwreck: ")]
    assert len(lines) == 1
    assert complaint in lines[0]
    assert list(here.iterdir()) == []


def test_a_room_without_every_run_has_no_row_on_the_board(call, made, here):
    words = ("--submission", "us", "--code", "https://example.org/answers", "--contact", "me", "--out", "class")
    result = call("quiz", "grade", made / "answers", "--key", made / "six.key.json", *words, "--submissions", "entries")
    assert result.code == 2
    assert "submission: 62 of 68 runs have no answer" in result.err
    assert list(here.iterdir()) == []


def test_edited_foreign_and_double_exports_leave_nothing(call, made, here):
    ada = made / "answers" / "Ada.json"
    (here / "edited.json").write_text(
        ada.read_text(encoding="utf-8").replace('"step": 100', '"step": 90'), encoding="utf-8"
    )
    quiz = read_key(made / "six.key.json")
    foreign = Sheet("Eve", "4" * 16, replace(quiz.recipe, seed=1), tuple(Answer(run, "healthy") for run in range(1, 7)))
    write_sheet(here / "foreign.json", foreign)
    for words, complaint in (
        (("edited.json",), "edited.json: checksum: edited or damaged"),
        (("foreign.json",), "foreign.json: quiz_id: "),
        ((ada, made / "answers" / "Ada.json"), "is in"),
    ):
        result = call("quiz", "grade", *words, "--key", made / "six.key.json", "--out", "class")
        assert result.code == 2
        assert complaint in result.err
        assert not (here / "class").exists()
