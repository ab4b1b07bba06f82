"""Progress: a bar in a terminal, a plain line now and then elsewhere, nothing when quiet."""

import io
import re

import pytest

from trainwreck.evaluation.progress import EVERY, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Time passes only when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("trainwreck.evaluation.progress.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_without_a_terminal_it_is_plain_lines_on_stderr(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("train") as tick:
        for done in range(1, 5):
            clock.now += EVERY
            tick(done, 4, f"run {done}")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.isascii()
    assert "\r" not in err
    assert "\x1b" not in err
    lines = [" ".join(line.split()) for line in err.splitlines()]
    assert lines[0] == "train: 25% after 5 s, about 15 s left run 1"
    assert lines[-1] == "train: 100% after 20 s run 4"
    assert len(lines) == 4


def test_lines_are_few(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("train") as tick:
        for done in range(1, 1001):
            clock.now += EVERY / 100
            tick(done, 1000, "")
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 12  # the first call, one every 5 s of 50 s, the last call
    shares = [int(re.findall(r"(\d+)%", line)[0]) for line in lines]
    assert shares == sorted(shares)
    assert shares[-1] == 100


def test_the_end_is_told_however_soon_it_comes(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("train") as tick:
        tick(1, 2, "")
        tick(2, 2, "end")
    assert "100%" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("done", "total"), [(0, 0), (0, 3)])
def test_no_work_done_is_no_division_by_zero(
    done: int, total: int, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("train") as tick:
        clock.now += 60
        tick(done, total, "")
    (line,) = capsys.readouterr().err.splitlines()
    assert " ".join(line.split()) == "train: 0% after 60 s"


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_says_nothing(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress("train", quiet=True) as tick:
        tick(1, 2, "note")
        tick(2, 2, "note")
    assert stream.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_a_terminal_gets_a_bar_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress("train") as tick:
        tick(1, 2, "one run")
        tick(2, 2, "two runs")
    assert "train" in stream.getvalue()
    assert "100 %" in stream.getvalue()
    assert "two runs" in stream.getvalue()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_an_exception_passes_through(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal() if terminal else io.StringIO())

    def work() -> None:
        with progress("train") as tick:
            tick(1, 2, "")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        work()
