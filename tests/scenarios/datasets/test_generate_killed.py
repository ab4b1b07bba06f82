"""`generate`, killed with its workers at random moments, goes on each time and ends with the same bytes."""

import os
import signal
import subprocess
import sys
from time import monotonic

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.scenarios.datasets.plans import resolve

KILLS = 20
WORDS = (
    "scenario=mask_missing", "steps=range(22,30)", "model.width=16", "model.heads=2", "model.context=16",
    "data.rows=2", "evaluation.rows=4",
)  # fmt: skip


def start(out):
    command = [sys.executable, "-m", "trainwreck", "generate", *WORDS, "--out", str(out), "--workers", "2", "--json"]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finished(out):
    """Bundles that a resume would count, by name."""
    return {path.stem for path in (out / "bundles").glob("[!.]*.json")} if out.exists() else set()


@pytest.mark.slow
def test_killed_twenty_times(tmp_path):
    began = monotonic()
    with start(tmp_path / "undisturbed") as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    whole = monotonic() - began
    undisturbed = load(tmp_path / "undisturbed")
    expected = [spec.run_id for spec in resolve(list(WORDS))[1]]
    draw = np.random.default_rng(20)
    kills = middle = during = rounds = 0
    while kills < KILLS:
        rounds += 1
        out = tmp_path / f"killed{rounds}"
        while not (out / "manifest.json").exists():
            # The last of a folder's calls are left alone once there have been enough kills.
            wait = draw.uniform(0.0, 0.8 * whole) if kills < KILLS else None
            before = finished(out)
            with start(out) as process:
                try:
                    _, said = process.communicate(timeout=wait)
                    assert process.returncode == 0, said
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                    assert process.returncode == -signal.SIGKILL
                    kills += 1
                    middle += (out / "plan.json").exists() and not (out / "manifest.json").exists()
                    during += finished(out) > before
            assert finished(out) >= before  # what was finished stays finished
        again = load(out)  # every checksum
        assert again.manifest["files"] == undisturbed.manifest["files"]
        assert again.runs["run_id"].tolist() == expected
        assert {path.name for path in (out / "telemetry").glob("[!.]*")} == {
            path.name for path in (tmp_path / "undisturbed" / "telemetry").iterdir()
        }
    print(f"{kills} kills over {rounds} data sets; {middle} in the middle, {during} after new bundles were finished")
    assert middle >= KILLS // 4
    assert during >= 1
