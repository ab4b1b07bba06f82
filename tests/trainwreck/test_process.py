"""The command as a process: version, broken pipes, Ctrl-C and what it leaves."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.errors import InputError

COMMAND = (sys.executable, "-m", "trainwreck")


def test_the_module_runs_as_the_command(tmp_path):
    done = subprocess.run([*COMMAND, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert version("trainwreck") in done.stdout


def test_bad_input_has_no_traceback(tmp_path):
    done = subprocess.run([*COMMAND, "show", "hihg_lr"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [("list",), ("list", "--json")], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error_to_talk_of(words, tmp_path):
    with subprocess.Popen([*COMMAND, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_leaves_a_folder_that_goes_on(workers, tmp_path, tiny, call, monkeypatch):
    """A terminal sends SIGINT to the whole group; so does this, as soon as training is under way."""
    out = tmp_path / "out"
    size = [word for word in tiny if not word.startswith("steps=")]
    words = ["generate", "scenario=mask_missing", *size, "steps=5000,5001", "--out", str(out), "--workers"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *words, str(workers)], stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        assert process.stderr.readline().startswith("22 runs: 2 faulty")
        assert "bundle 0/4" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate()
    assert process.returncode == 130
    assert printed == ""
    assert errors.splitlines()[-1] == "trainwreck: interrupted; the same command goes on from here"
    assert "Traceback" not in errors
    assert (out / "plan.json").is_file()
    with pytest.raises(InputError, match="not finished"):
        load(out)

    def again(jobs, **where):
        assert len(jobs) == 9  # the healthy ones are a bundle
        raise KeyboardInterrupt

    monkeypatch.setattr("trainwreck.scenarios.datasets.generate.train", again)
    errors = call(*words, 1)
    assert errors.code == 130
    assert errors.err.splitlines()[-1] == "trainwreck: interrupted; the same command goes on from here"
