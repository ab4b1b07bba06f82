"""A detector that is not one, or fails, is one line on stderr and exit code 2; its runs are still counted."""

import json

import pytest

GOOD = "class Mine:\n    def reset(self, context): pass\n    def update(self, row): "


def score(call, data_set, here, source, name="Mine"):
    if source is not None:
        (here / "mine.py").write_text(source, encoding="utf-8")
    return call("score", data_set, "--detector", f"mine.py:{name}", "--json")


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        (None, ["no such file"]),
        ("class Mine(:\n", ["does not import", "SyntaxError"]),
        ("raise RuntimeError('first\\nsecond')", ["does not import", "RuntimeError: first second"]),
        ("import sys\nsys.exit(3)", ["does not import", "SystemExit: 3"]),
        ("import no_such_module_anywhere", ["does not import", "no_such_module_anywhere"]),
        ("Other = 1", ["has no class 'Mine'"]),
        ("Mine = 1", ["Mine is not a class"]),
        ("class Mine: pass", ["Mine is not a detector", "reset and update"]),
        ("class Mine:\n    def reset(self, context): pass", ["Mine is not a detector", "update"]),
    ],
)
def test_what_is_no_detector_is_refused(source, parts, call, data_set, here):
    result = score(call, data_set, here, source)
    assert result.code == 2
    assert result.out == ""
    (line,) = result.err.splitlines()
    assert line.startswith("trainwreck: detector mine.py: ")
    assert all(part in line for part in parts)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        (GOOD + "raise ValueError('first\\nsecond')", "crashed: ValueError: first second"),
        (GOOD + "return 'rubbish'", "garbage: update returned 'rubbish'"),
        (GOOD + "return float('nan')", "garbage: score: nan"),
        (GOOD + "raise SystemExit(3)", "crashed: SystemExit: 3"),
        (GOOD + "import os; print('farewell'); os._exit(3)", "it printed last: farewell"),
        ("class Mine:\n    def __init__(self, size): pass\n    def reset(self, c): pass\n    def update(self, r): pass",
         "size"),
        ("class Mine:\n    def reset(self, c): raise KeyError('k')\n    def update(self, row): pass", "KeyError"),
    ],
)  # fmt: skip
def test_a_detector_that_fails_is_told(source, part, call, data_set, here):
    result = score(call, data_set, here, source)
    (card,) = json.loads(result.out)
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith("trainwreck: detector mine.py:Mine: ")
    assert part in line
    assert f"on {len(card['alarms'])} runs" in line
    assert card["counts"]["crashed"] > 0


def test_limits_and_commands_that_cannot_be_are_refused(call, data_set, here):
    for words, part in (
        (("--detector", "zclip", "--row-seconds", "0"), "row_seconds: 0.0 is not allowed"),
        (("--detector", "zclip", "--memory-mb", "-5"), "memory_mb: -5.0 is not allowed"),
        (("--detector", "zclip", "--output-kb", "nan"), "output_kb: nan is not allowed"),
        (("--detector", "zclip", "--batch", "0"), "batch: 0 is not allowed; allowed: 1 to 1024"),
        (("--detector", "zclip", "--row-seconds", "soon"), "'soon' is not a valid float"),
        (("--detector", "cmd:perl 'x"), "No closing quotation"),
        (("--detector", "cmd:"), "allowed: cmd:PROGRAM WORD ..."),
        (("--detector", "cmd:no_such_program"), "'no_such_program' is no program"),
    ):
        result = call("score", data_set, *words)
        assert result.code == 2
        assert result.out == ""
        assert len(result.err.splitlines()) == 1
        assert part in result.err


def test_limits_reach_the_detector(call, data_set, here):
    source = "class Mine:\n    def reset(self, context): pass\n    def update(self, row): print('x' * 9000)"
    (here / "mine.py").write_text(source, encoding="utf-8")
    words = ("score", data_set, "--detector", "mine.py:Mine")
    assert call(*words).code == 0
    result = call(*words, "--output-kb", "16")
    assert result.code == 2
    assert "output: printed more than 16 KiB in a run" in result.err
    assert "note: output on " in result.out


def test_unknown_names_are_refused(call, data_set):
    for words, part in (
        (("score", data_set, "--detector", "zclp"), "did you mean 'zclip'?"),
        (("score", data_set, "--detector", "mine.py"), "file.py:Class"),
        (("score", data_set, "--detector", "zclip", "--profile", "ful"), "did you mean 'full'?"),
        (("score", data_set, "--detector", "zclip", "--track", "informd"), "did you mean 'informed'?"),
        (("leaderboard", data_set, "--detector", "zclp"), "did you mean 'zclip'?"),
        (("leaderboard", data_set, "--profile", "ful"), "did you mean 'full'?"),
    ):
        result = call(*words)
        assert result.code == 2
        assert result.out == ""
        assert len(result.err.splitlines()) == 1
        assert part in result.err
    assert not (data_set / "scores.json").exists()
