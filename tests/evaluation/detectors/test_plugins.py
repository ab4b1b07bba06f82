"""Detectors of installed packages, found by their entry points."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwreck.evaluation.detectors.plugins import clashes, plugins
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.opening import open_detector

CODE = """
from trainwreck import Detector

class Late(Detector):
    rule = "step 5"
    def update(self, row):
        return row["step"] >= 5

class Lame: pass
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Lay a distribution out as an installer does: a module, its metadata, its entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    )

    def put(name: str, code: str, **entries: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)
        facts = tmp_path / f"{name}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{entry} = {name}:{value}" for entry, value in entries.items()]
        (facts / "entry_points.txt").write_text("[trainwreck.detectors]\n" + "\n".join(lines) + "\n")

    return put


def opened(name: str) -> Isolated:
    detector = open_detector(name)
    assert isinstance(detector, Isolated)
    return detector


def test_a_plug_in_is_a_detector_like_any_other(install: Install, make_trace: Any) -> None:
    install("my_detectors", CODE, late="Late", lame="Lame", gone="Gone")
    assert set(plugins()) == {"late", "lame", "gone", *(f"my_detectors:{name}" for name in ("late", "lame", "gone"))}
    for name in ("late", "my_detectors:late"):
        with opened(name) as detector:
            assert detector.about.pop("confinement")
            assert detector.about == {"rule": "step 5"}
            assert replay(detector, make_trace("r")).first_alarm == 5
    with pytest.raises(InputError, match="plug-in lame: Lame is not a detector, it has no reset and update"):
        open_detector("lame")
    with pytest.raises(InputError, match=r"plug-in gone: does not load .*has no attribute 'Gone'"):
        open_detector("gone")
    with pytest.raises(InputError, match="'latte' is not allowed; did you mean 'late'"):
        open_detector("latte")


def test_one_that_is_broken_harms_no_other(install: Install, make_trace: Any) -> None:
    install("broken", "raise RuntimeError('first\\nsecond')", bad="Bad")
    install("my_detectors", CODE, late="Late")
    assert "zclip" in builtin_detectors()
    with opened("late") as detector:
        assert replay(detector, make_trace("r")).status == "ok"
    with pytest.raises(InputError) as caught:
        open_detector("bad")
    assert "plug-in bad: does not load (crashed: RuntimeError: first second; it printed last:" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_that_are_taken_are_told(install: Install, make_trace: Any) -> None:
    install("my_detectors", CODE, late="Late", zclip="Late")
    install("others", CODE, late="Late")
    assert open_detector("zclip") is builtin_detectors()["zclip"]  # an id never changes its meaning
    assert clashes(["zclip", "olmo_stability", "late", "file.py:Mine"]) == [
        "'zclip' is the built-in detector; the plug-in of that name is my_detectors:zclip"
    ]
    with pytest.raises(InputError) as caught:
        open_detector("late")
    assert "several packages have it; allowed: my_detectors:late, others:late" in str(caught.value)
    for name in ("my_detectors:zclip", "others:late"):
        with opened(name) as detector:
            assert replay(detector, make_trace("r")).first_alarm == 5
