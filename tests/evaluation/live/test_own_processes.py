"""Beside a run each detector of a file has a process of its own: one that ends, hangs or meddles is left out alone."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from trainwreck.evaluation.live.monitor import Alarm, Monitor

MINE = (
    "import os, sys\nclass Mine:\n    {about}\n"
    "    def reset(self, context): self.context = context\n    def update(self, row):\n        {what}\n"
)


def mine(folder: Path, what: str, about: str = "rule = 'r'") -> str:
    file = folder / "mine.py"
    file.write_text(MINE.format(what=what, about=about))
    return f"{file}:Mine"


def watched(*detectors: str) -> tuple[list[Alarm], dict[str, str]]:
    monitor = Monitor(list(detectors), say=lambda line: None)
    try:
        alarms = [
            alarm
            for step, loss in enumerate([3.0, 2.0, math.nan], start=1)
            for alarm in monitor.update({"loss": loss, "layer_grad_norm": [1.0, 2.0]}, step)
        ]
        return alarms, monitor.crashed
    finally:
        monitor.close()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("os._exit(0)", "its process ended with exit code 0"),
        ("raise ValueError('\\ud800')", "ValueError: \\ud800"),
        ("sys.modules['trainwreck.evaluation.detectors.sanity.nonfinite_loss'] = None; return 'x'", "garbage: update"),
    ],
)
def test_it_ends_alone(what: str, why: str, tmp_path: Path) -> None:
    alarms, crashed = watched(mine(tmp_path, what), "nonfinite_loss")
    assert [(alarm.detector, alarm.step) for alarm in alarms] == [("nonfinite_loss", 3)]
    assert list(crashed) == ["mine.py:Mine"]
    assert crashed["mine.py:Mine"].startswith(why)


def test_it_sees_the_rows_and_its_causes_are_cleaned(tmp_path: Path) -> None:
    what = (
        "from trainwreck import Verdict; "
        "return Verdict(row['layer_grad_norm'][1], row['step'] == 2 and row['loss'] == 2.0, ('\\x1b[31mred',))"
    )
    (alarm,), crashed = watched(mine(tmp_path, what))
    assert (alarm.step, alarm.score, alarm.causes, alarm.rule, crashed) == (2, 2.0, ("red",), "r", {})


def test_the_command_goes_on_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n1,3.0\n2,2.5\n3,nan\n")
    words = [
        sys.executable, "-m", "trainwreck", "watch", str(log), "--detector", mine(tmp_path, "os._exit(0)"),
        "--detector", "nonfinite_loss",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nonfinite_loss: alarm at step 3" in done.stdout
    assert "detector mine.py:Mine: crashed" in done.stderr
    assert "Traceback" not in done.stderr
