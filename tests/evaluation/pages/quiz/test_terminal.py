"""The game in a terminal, fed line by line."""

import io

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.quiz.answers import check_sheet
from trainwreck.evaluation.pages.quiz.terminal import play


def played(lines, shipped, quiz, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    sheet = play(shipped, quiz, "Ada")
    return sheet, capsys.readouterr().out


def test_answers_are_what_was_typed(shipped, quiz, monkeypatch, capsys):
    lines = ["", "25", "stop mask_missing, data", "healthy", "stop"] + ["healthy"] * 9
    sheet, out = played(lines, shipped, quiz, monkeypatch, capsys)
    check_sheet(sheet, quiz)
    assert [(one.said, one.step, one.named) for one in sheet.answers[:3]] == [
        ("stop", 35, ("mask_missing", "data")), ("healthy", None, ()), ("stop", 0, ()),
    ]  # fmt: skip
    assert [one.said for one in sheet.answers[3:]] == ["healthy"] * 9
    # The first row, then ten, then twenty-five: none beyond the stop.
    first = out.split("run 1 of 12")[1].split("run 2 of 12")[0]
    assert "step 35  loss" in first
    assert "step 36" not in first


def test_what_was_typed_wrong_is_asked_again(shipped, quiz, monkeypatch, capsys):
    lines = [
        "stp",
        "show los",
        "stop mask_mising",
        "stop data, numerics, schedule, optimisation",
        "names mask",
        "show lr",
        "quit",
    ]
    sheet, out = played(lines, shipped, quiz, monkeypatch, capsys)
    for line in (
        "command: 'stp' is not allowed; did you mean 'stop'", "show: 'los' is not allowed; did you mean 'loss'",
        "stop: 'mask_mising' is not allowed; did you mean 'mask_missing'", "stop: 4 names are not allowed",
        "mask_zeroed (attention and position)",
    ):  # fmt: skip
        assert line in out
    assert [one.said for one in sheet.answers] == ["nothing"] * 12


def test_the_truth_comes_after_the_answer_and_not_before(shipped, quiz, monkeypatch, capsys):
    _, out = played(["healthy"] * 12, shipped, quiz, monkeypatch, capsys)
    for number, run_id in enumerate(quiz.runs["run_id"], start=1):
        printed = out.split(f"run {number} of 12\n")[1]
        row = quiz.runs.loc[run_id]
        before, _, after = printed.partition("\n> ")
        assert row["kind"] not in before
        assert after.startswith(f"{row['kind']}: ")
        if row["kind"] == "failing":
            assert row["cause"] in after.splitlines()[0]
            assert f"onset {row['onset_step']:.0f}, visible {row['visible_step']:.0f}" in after.splitlines()[0]


def test_the_end_of_the_input_ends_the_game(shipped, quiz, monkeypatch, capsys):
    sheet, _ = played(["healthy"], shipped, quiz, monkeypatch, capsys)
    assert [one.said for one in sheet.answers] == ["healthy"] + ["nothing"] * 11


@pytest.mark.parametrize("name", ["", " a", "a\nb", "x" * 61])
def test_a_name_is_one_line(name, shipped, quiz):
    with pytest.raises(InputError, match=r"^player: "):
        play(shipped, quiz, name)
