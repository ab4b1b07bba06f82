"""Device and kernels on the command line: by one rule, recorded, and never another than asked for."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.backend import recorded

COMMAND = (sys.executable, "-m", "trainwreck")
needs_triton = pytest.mark.skipif(not find_spec("triton"), reason="needs the package triton")


def run(*words, interpreter):
    environment = os.environ | {"TRITON_INTERPRET": "1" if interpreter else "0"}
    return subprocess.run([*COMMAND, *map(str, words)], env=environment, capture_output=True, text=True, check=False)


def line(done, *parts):
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    for part in parts:
        assert part in done.stderr


def test_a_data_set_tells_device_and_kernels(data_set):
    assert load(data_set).manifest["backend"] == {"device": "cpu", "impl": "reference"}


@needs_triton
def test_kernels_in_the_interpreter_train_as_the_reference_does(tmp_path):
    """From the plan to the data set and back; apart by rounding, which four steps barely amplify."""
    tiny = ["steps=4", "model.layers=1", "model.width=16", "model.heads=1", "model.context=16", "data.rows=1",
            "evaluation.rows=1"]  # fmt: skip
    specs = family_of("mask_missing", [0], overrides=tiny, roles=(Role.FAULTY, Role.TWIN))
    content = {"format": "trainwreck-plan", "runs": [spec.to_json() for spec in specs]}
    (tmp_path / "plan.json").write_text(json.dumps(content), encoding="utf-8")
    plan = ["generate", tmp_path / "plan.json", "--workers", "1", "--out"]
    traces = {}
    for impl in ("reference", "triton"):
        done = run(*plan, tmp_path / impl, "--impl", impl, interpreter=True)
        assert done.returncode == 0, done.stderr
        data = load(tmp_path / impl)
        assert data.manifest["backend"] == {"device": "cpu", "impl": impl}
        traces[impl] = [data.trace(run_id) for run_id in data.runs["run_id"]]
    different = 0
    for one, other in zip(traces["reference"], traces["triton"], strict=True):
        for signal in one.signals:
            np.testing.assert_allclose(other[signal], one[signal], rtol=2e-3, atol=2e-4, err_msg=signal)
        different += any(not np.array_equal(one[signal], other[signal]) for signal in one.signals)
    assert different, "the kernels gave the reference's bits: were they used?"

    again = run("reproduce", tmp_path / "triton", traces["triton"][0].run_id, "--json", interpreter=True)
    assert json.loads(again.stdout)["identical"], again.stderr
    line(run("reproduce", tmp_path / "triton", traces["triton"][0].run_id, interpreter=False), "impl: 'triton'")
    line(run(*plan, tmp_path / "triton", interpreter=True), "begun on cpu with triton kernels")


def test_what_cannot_run_is_refused(tmp_path):
    plan = ["generate", "scenario=mask_missing", "--out", tmp_path / "out"]
    line(run(*plan, "--impl", "triton", interpreter=False), "impl: 'triton'", "allowed: reference")
    line(run(*plan, "--impl", "tritno", interpreter=False), "impl: 'tritno'")
    line(run(*plan, "--device", "cdua", interpreter=False), "device: 'cdua'", "did you mean 'cuda'")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("command", ["generate", "run", "verify", "demo"])
def test_a_device_that_is_not_there(command, tmp_path):
    words = {"generate": ["scenario=mask_missing"], "run": ["mask_missing"], "verify": ["mask_missing"], "demo": []}
    out = [] if command == "run" else ["--out", tmp_path / "out"]
    line(run(command, *words[command], *out, "--device", "cuda", interpreter=False), "without a CUDA device")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [{"device": "cpu"}, {"device": "cpu", "impl": "reference", "x": 1}, "cpu", None])
def test_a_record_that_names_no_backend_is_one_line(content):
    with pytest.raises(InputError, match=r"^backend: .* is not allowed; allowed: device and impl$"):
        recorded({"backend": content})
