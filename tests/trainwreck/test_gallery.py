"""`trainwreck gallery`: the page, and bad input in one line."""

import json

import pytest


def test_the_page_of_a_data_set_that_was_just_made(call, harmed, here):
    result = call("gallery", harmed, "--detector", "zclip", "--workers", "1", "--json")
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    assert (facts["gallery"], facts["scenarios"]) == ("gallery.html", 2)
    text = (here / "gallery.html").read_text(encoding="utf-8")
    assert len(text.encode()) == facts["bytes"] < 400_000
    for word in (
        'data-id="nan_weight_spread"',
        'data-id="benign_clean_resume"',
        "score_dropout",
        "trainwreck gallery",
    ):
        assert word in text


def test_stored_alarms_are_read_in_place_of_a_replay(call, harmed, here):
    kept = call("score", harmed, "--detector", "nonfinite_loss", "--alarms", "kept")
    assert kept.code == 0, kept.err
    result = call("gallery", harmed, "--alarms", "kept", "--out", "g.html")
    assert result.code == 0, result.err
    assert result.out.startswith("g.html: 2 scenarios, ")
    assert "Alarms are of nonfinite_loss:" in (here / "g.html").read_text(encoding="utf-8")


def test_cards_of_a_data_set(call, harmed, here):
    result = call("gallery", harmed, "--cards", "all", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out) == {
        "cards": "cards.html",
        "scenarios": ["benign_clean_resume", "nan_weight_spread"],
        "missing": [],
    }
    assert (here / "cards.html").read_text(encoding="utf-8").count("<article ") == 2


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("none",), ("data set: 'none' is not a folder",)),
        (("sample", "sample"), ("is given twice",)),
        (("sample", "--detector", "zclop"), ("detector: 'zclop'", "did you mean 'zclip'")),
        (("sample", "--detector", "zclip", "--alarms", "kept"), ("detector: not allowed beside --alarms",)),
        (("sample", "--cards", "few"), ("cards: 'few' is not allowed; allowed: eight, all",)),
        (("sample", "--cards", "all", "--detector", "zclip"), ("cards: not allowed beside --detector",)),
        (("sample", "--alarms", "nowhere"), ("alarms: 'nowhere' is not a file",)),
        (("sample", "--workers", "0"), ("--workers",)),
        (("sample", "--out", "."), ("out: '.' is a folder",)),
    ],
    ids=str,
)
def test_bad_input_is_one_line_and_nothing_is_written(call, here, words, parts):
    result = call("gallery", *words)
    result.refused(*parts)
    assert list(here.iterdir()) == []
