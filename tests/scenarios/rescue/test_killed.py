"""A board or a page that is killed again and again ends with the bytes of one that nobody disturbed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.rescue.kept import Kept
from trainwreck.scenarios.rescue.outcomes import Outcome

HEAD = {"profile": "common", "block": 10}
LINUX = pytest.mark.skipif(os.name != "posix", reason="sessions of processes are POSIX's")


def one(run: str) -> Outcome:
    return Outcome(
        "never", run, "mask_missing", "failing", 3, "b", True, 10, float("nan"), 0.5, 0.0, 1.0, 2.0, False, False,
        None, 60, "end", (), ("mask_missing",), ((10, "continue", "why"),),
    )  # fmt: skip


@pytest.fixture
def whole(tmp_path) -> tuple[Path, bytes]:
    """A file of three outcomes, and its bytes."""
    path = tmp_path / "episodes.jsonl"
    Kept(path, HEAD).add([one("a"), one("b"), one("c")])
    return path, path.read_bytes()


def test_wherever_a_file_breaks_off_it_is_gone_on_with(whole):
    path, content = whole
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        kept = Kept(path, HEAD)
        names = [outcome.run_id for outcome in kept.outcomes]
        assert names == ["a", "b", "c"][: max(0, content[:size].count(b"\n") - 1)]
        kept.add([one(name) for name in "abc" if name not in names])
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"my notes, without an end", "not a file of episodes"),
        (b"\xff\xfe\n", "not a file of episodes"),
        (b'{"profile": "full", "block": 10}\n', "or another --out"),
        (json.dumps(HEAD).encode() + b'\n{"policy": "never"}\n', "line 2 is damaged"),
        (json.dumps(HEAD).encode() + b"\n[1]\n", "line 2 is damaged"),
        (json.dumps(HEAD).encode() + b"\n\n", "line 2 is damaged"),
    ],
)
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, content, message):
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        Kept(path, HEAD)
    assert path.read_bytes() == content


def command(out: Path, *policies: str, runs: str = "1") -> list[str]:
    chosen = [word for policy in policies for word in ("--policy", policy)]
    usual = ("rescue", "sample", "--runs", runs, "--block", "100", "--out", str(out), "--json")
    return [sys.executable, "-m", "trainwreck", *usual, *chosen]


def killed(words: list[str], out: Path, seconds: float) -> bool:
    """Start a command and kill it, with its children, so long after it has begun to train; False where it had ended."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and not out.exists():  # its first line is written when everything is loaded
        time.sleep(0.01)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def check_kills(tmp_path: Path, policies: tuple[str, ...], runs: str, kills: int, seed: int) -> None:
    """Kill at moments that are drawn, the first of them before any episode can have ended; then let it end."""
    began = time.monotonic()
    calm = subprocess.run(command(tmp_path / "calm.jsonl", *policies, runs=runs), capture_output=True, check=True)
    whole, out, draws = time.monotonic() - began, tmp_path / "disturbed.jsonl", random.Random(seed)
    disturbed = command(out, *policies, runs=runs)
    assert killed(disturbed, out, 0.05)
    hit = sum(killed(disturbed, out, draws.uniform(0.2, 0.9) * whole) for _ in range(kills - 1))
    end = subprocess.run(disturbed, capture_output=True, check=True)
    assert end.stdout == calm.stdout, hit
    assert out.read_bytes() == (tmp_path / "calm.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calm.jsonl", "disturbed.jsonl"]


@LINUX
def test_a_board_that_is_killed_twice_ends_with_the_same_bytes(tmp_path):
    check_kills(tmp_path, ("never", "lower_rate"), "1", 2, 0)


@LINUX
@pytest.mark.slow
def test_a_board_that_is_killed_twelve_times_ends_with_the_same_bytes(tmp_path):
    check_kills(tmp_path, ("never", "oracle", "halve_as_opt", "random"), "3", 12, 1)


def page(folder: Path) -> list[str]:
    """Three runs with two decision points each: 61 courses at most, which are trained as two bundles."""
    usual = ("rescue", "sample", "--play", "--runs", "1", "--block", "50", "--out", str(folder / "rescue.html"))
    return [sys.executable, "-m", "trainwreck", *usual, "--json"]


def killed_after(words: list[str], out: Path, lines: int) -> None:
    """Start a command and kill it, with its children, when a file has so many lines."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and (not out.exists() or out.read_bytes().count(b"\n") < lines):
        time.sleep(0.01)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@LINUX
@pytest.mark.slow
def test_a_page_that_is_killed_between_its_bundles_is_gone_on_with(tmp_path):
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    for folder in (calm, disturbed):
        folder.mkdir()
    subprocess.run(page(calm), capture_output=True, check=True)
    kept = disturbed / "rescue.courses.jsonl"
    killed_after(page(disturbed), kept, 1)  # before a run can have ended
    killed_after(page(disturbed), kept, 5)  # after the first bundle of courses
    whole = kept.read_bytes().splitlines(keepends=True)
    assert 4 < len(whole) <= 1 + 3 + 32  # it may be killed while they are written
    kept.write_bytes(b"".join(whole[:-1]) + whole[-1][:100])  # as a kill while a line was written leaves it
    end = subprocess.run(page(disturbed), capture_output=True, check=True)
    assert json.loads(end.stdout)["branches"] > 32
    assert (disturbed / "rescue.html").read_bytes() == (calm / "rescue.html").read_bytes()
    assert [[path.name for path in folder.iterdir()] for folder in (calm, disturbed)] == [["rescue.html"]] * 2
