"""What a detector's process can read, write, reach and end, layer by layer; and that it is said which layers hold."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.replay.alarms import CONFINEMENT
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.sandbox import confine
from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import open_detector
from trainwreck.evaluation.replay.sandbox.readable import files_of

HOSTILE = Path(__file__).with_name("hostile.py")
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux has the layers")
Opened = Callable[..., Isolated]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Open a class of a copy of `hostile.py`, in a folder of its own, with some layers."""
    folder = tmp_path / "detector"
    folder.mkdir()
    shutil.copy(HOSTILE, folder)
    with ExitStack() as stack:

        def begin(name: str, layers: tuple[str, ...] = confine.LAYERS, **limits: Any) -> Isolated:
            monkeypatch.setattr(confine, "LAYERS", layers)
            found = open_detector(f"{folder / 'hostile.py'}:{name}", Limits(**limits))
            assert isinstance(found, Isolated)
            return stack.enter_context(found)

        yield begin


def holds(detector: Isolated, *names: str) -> None:
    """Skip where the system has one of these layers not."""
    for name in names:
        if isinstance(why := detector.about[CONFINEMENT][name], str):
            pytest.skip(f"{name}: {why}")


def said(detector: Isolated, make_trace: Any) -> list[str]:
    status: str = replay(detector, make_trace("r", steps=10)).status
    assert status.startswith("crashed: RuntimeError: "), status
    return status.removeprefix("crashed: RuntimeError: ").split()


def test_a_checkout_on_the_path_does_not_open_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `python -m` has the folder that it is called in."""
    hidden = sample().resolve()
    monkeypatch.syspath_prepend(hidden.parents[1])
    opened = [Path(path).resolve() for path in files_of([sys.executable], []).readable]
    assert hidden.parent / "errors.py" in opened
    assert hidden not in opened
    assert not set(hidden.parents) & set(opened)


@linux
def test_it_reads_its_own_files_and_python_and_no_data_set(copied: Opened, tmp_path: Path, make_trace: Any) -> None:
    folder = tmp_path / "detector"
    shutil.copytree(sample(), folder / "demo")
    (folder / "weights").write_text("weights")
    (folder / "declared").mkdir()
    for name in ("declared/table", "demo/secret", "../secret"):
        (folder / name).write_text(f"{name}-")
    paths = [
        folder / "weights", os.__file__, "/proc/self/comm", folder / "declared" / "table",
        folder / "demo" / "runs.parquet", folder / "demo" / "secret", folder / ".." / "secret",
        sample() / "runs.parquet", sample() / "SHA256SUMS", f"/proc/{os.getpid()}/cmdline", Path.home(),
    ]  # fmt: skip
    (folder / "paths").write_text(" ".join(map(str, paths)))
    detector = copied("Reads", readable=(str(folder / "declared"),))
    holds(detector, "landlock")
    found = said(detector, make_trace)
    assert found[0] == "weig"
    assert found[3] == "decl"
    assert all("Error" not in one for one in found[:4])
    assert all("Error" in one for one in found[4:])
    assert said(copied("Reads", confined=False), make_trace)[6] == "../s"


@linux
def test_it_writes_in_its_own_folder_alone(copied: Opened, make_trace: Any) -> None:
    detector = copied("Writes")
    holds(detector, "landlock")
    own, other, nothing, temporary, _ = said(detector, make_trace)
    assert (own, nothing) == ("written", "written")
    assert (other, temporary) == ("PermissionError", "PermissionError")


@linux
@pytest.mark.parametrize("layers", [("namespaces",), ("no_new_privs", "landlock"), ("no_new_privs", "seccomp")])
def test_each_of_three_layers_keeps_it_from_the_network(
    layers: tuple[str, ...], copied: Opened, make_trace: Any
) -> None:
    detector = copied("Calls", layers)
    holds(detector, *layers)
    if "landlock" in layers and detector.about[CONFINEMENT]["landlock"] < 4:
        pytest.skip("this Landlock has no rules for the network")
    (error,) = said(detector, make_trace)
    # Refused by a rule, or by an interface that is down; not by the port, which is closed.
    assert error == ("OSError" if layers == ("namespaces",) else "PermissionError")
    assert said(copied("Calls", confined=False), make_trace) == ["ConnectionRefusedError"]


@linux
@pytest.mark.parametrize("layers", [("namespaces",), ("no_new_privs", "landlock")], ids="-".join)
def test_it_finds_no_process_to_end(layers: tuple[str, ...], copied: Opened, make_trace: Any) -> None:
    detector = copied("Signals", layers)
    holds(detector, *layers)
    if "landlock" in layers and detector.about[CONFINEMENT]["landlock"] < 6:
        pytest.skip("this Landlock has no rules for signals")
    # The first process of its namespace waits for it, and can't be ended from within.
    assert said(detector, make_trace) == ["found", "[1]" if "namespaces" in layers else "[]"]
    assert replay(detector, make_trace("s", steps=7)).status == "ok"


@linux
def test_seccomp_refuses_signals_to_the_harness(tmp_path: Path, make_trace: Any, monkeypatch: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import os, resource\nclass Mine:\n    def reset(self, context): pass\n    def update(self, row):\n"
        f"        for pid in ({os.getpid()}, os.getppid(), -1):\n"
        "            try:\n                os.kill(pid, 0)\n            except PermissionError: continue\n"
        "            raise RuntimeError(pid)\n"
        f"        try:\n            resource.prlimit({os.getpid()}, resource.RLIMIT_CORE)\n"
        "        except PermissionError: return 1.0\n"
    )
    monkeypatch.setattr(confine, "LAYERS", ("no_new_privs", "seccomp"))
    with open_detector(f"{file}:Mine") as detector:  # type: ignore[union-attr]
        holds(detector, "seccomp")
        found = replay(detector, make_trace("r", steps=2))
    assert (found.status, found.scores.tolist()) == ("ok", [1.0, 1.0])


def test_where_no_layer_holds_it_works_and_is_said(copied: Opened, make_trace: Any) -> None:
    detector = copied("Hostile", ())
    assert replay(detector, make_trace("r", steps=10)).status == "ok"
    assert all(isinstance(why, str) for why in detector.about[CONFINEMENT].values())


def test_a_scorecard_says_which_layers_held(tmp_path: Path, write_small_data_set: Any) -> None:
    from trainwreck.evaluation.leaderboard.run import score

    card = score(f"{HOSTILE}:Hostile", write_small_data_set(tmp_path))
    assert set(card.to_dict()["about"][CONFINEMENT]) == set(confine.LAYERS)
    (line,) = [line for line in card.text().splitlines() if "in a process of its own, confined by " in line]
    assert "subreaper" in line
    assert "confined" not in score("zclip", write_small_data_set(tmp_path / "other")).text()
