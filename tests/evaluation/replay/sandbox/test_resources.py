"""What a detector may use, counted over all that it began; and what it leaves behind is gone."""

import sys
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import open_detector
from trainwreck.evaluation.replay.sandbox.usage import tree

HOSTILE = Path(__file__).with_name("hostile.py")
linux = pytest.mark.skipif(sys.platform != "linux", reason="watched on Linux")


def hostile(name: str, **limits: Any) -> Isolated:
    found = open_detector(f"{HOSTILE}:{name}", Limits(**limits))
    assert isinstance(found, Isolated)
    return found


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("Surrogate", "crashed: ValueError: \\ud800 and \\u202e"),
        ("NoText", "crashed: UnprintableError: ?"),
        ("DeepCauses", "crashed: RecursionError"),
        ("DeepFolders", ""),
        ("ClosedFolders", ""),
        ("OneLargeFile", "crashed: OSError: [Errno 27] File too large"),
        ("LargeFiles", "disk: "),
        ("ManyFiles", "disk: more than 10,000 files"),
        pytest.param("ManyProcesses", "processes: ", marks=linux),
        pytest.param("ChildrenHoard", "memory: ", marks=linux),
    ],
)
def test_each_harm_is_the_status_of_its_run_and_nothing_is_left(
    name: str, status: str, make_trace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    memory_mb = 400.0 if name == "ChildrenHoard" else 4000.0
    with hostile(name, memory_mb=memory_mb, disk_mb=20.0, row_seconds=100.0) as detector:
        found = replay(detector, make_trace("r", steps=10))
        assert found.status.startswith(status), found.status
        assert found.status.isprintable()
        assert found.first_alarm == 3
        processes = tree(detector._remote._process._process.pid) if detector._remote is not None else []
        after = replay(detector, make_trace("s", steps=7))
        assert (after.status, after.first_alarm) == ("ok", 3)
    assert list(tmp_path.iterdir()) == []
    assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in processes)


def test_so_is_the_name_of_a_file_that_does_not_load(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[31m.py"
    file.write_text("import os\nos._exit(30)\nclass D: pass\n")
    with pytest.raises(InputError, match="does not load") as refused:
        open_detector(f"{file}:D", Limits())
    assert str(refused.value).isprintable()


def test_what_it_says_of_itself_is_cleaned() -> None:
    with hostile("Surrogate") as detector:
        assert detector.about["rule"] == "a \\ud800 and"
        assert detector.about["causes"] == [""]


def test_time_is_limited_over_all_runs(make_trace: Any) -> None:
    """Just under the limit of a row, row by row."""
    with hostile("Dawdles", row_seconds=5.0, minutes=0.02) as detector:
        found = [replay(detector, make_trace(f"r{i}", steps=40)) for i in range(3)]
    assert found[0].status == "timeout: all the time for its runs is spent"
    assert {one.status for one in found[1:]} == {"timeout: not tried, all the time for its runs is spent"}
    assert 0 < found[0].rows < 20


def test_time_may_be_spent_without_a_timeout(make_trace: Any) -> None:
    """By runs that crash, say. It was an IndexError, which ended the scoring of all entries."""
    with hostile("Surrogate") as detector:
        assert replay(detector, make_trace("r", steps=10)).outcome == "crashed"
        detector.expect(1, share=0.0)
        found = replay(detector, make_trace("s", steps=10))
    assert found.status == "timeout: not tried, all the time for its runs is spent"


def test_more_runs_have_more_time(make_trace: Any) -> None:
    with hostile("Dawdles", row_seconds=5.0, minutes=0.02) as detector:
        detector.expect(10_000)
        assert replay(detector, make_trace("r", steps=20)).status == "ok"
        detector.expect(10_000, 0.01)
        assert replay(detector, make_trace("r", steps=20)).outcome == "timeout"


def test_its_time_is_measured_from_outside(make_trace: Any) -> None:
    with hostile("PatchesTheClock") as detector:
        found = replay(detector, make_trace("r", steps=10))
    assert found.status == "ok"
    assert found.update_us > 5000.0
