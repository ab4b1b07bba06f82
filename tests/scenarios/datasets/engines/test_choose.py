"""The engine that is named, its settings, and a line where it can't be had."""

import subprocess
import sys

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.datasets.engines import Local, Ray, Slurm, engine

NOTHING = {"ray_address": None, "slurm_partition": None, "slurm_minutes": None}


def test_each_name_gives_its_settings(tmp_path):
    assert engine("local", tmp_path, 3, 2**30, NOTHING) == Local(3, 2**30)
    assert engine("ray", tmp_path, None, None, NOTHING | {"ray_address": "auto"}) == Ray(address="auto")
    assert engine("slurm", tmp_path, None, None, NOTHING) == Slurm(tmp_path)
    options = NOTHING | {"slurm_partition": "short", "slurm_minutes": 5}
    assert engine("slurm", tmp_path, 40, 2**30, options) == Slurm(tmp_path, 40, "short", minutes=5, memory=2**30)


def test_a_setting_of_another_engine_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"^slurm-minutes: 5 is not allowed with the engine ray; allowed: slurm$"):
        engine("ray", tmp_path, None, None, NOTHING | {"slurm_minutes": 5})


def test_a_missing_library_is_one_line_that_says_what_to_install(tmp_path, monkeypatch):
    for library, settings, extra in (("ray", Ray(), "ray"), ("submitit", Slurm(tmp_path), "slurm")):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(InputError, match=rf"^engine: '{extra}' is not allowed[^\n]*'trainwreck\[{extra}\]'"):
            settings.check()


def test_no_library_of_an_engine_is_loaded_before_it_is_asked_for():
    code = (
        "import sys, trainwreck.scenarios.datasets.engines; "
        "print(sorted({'ray', 'submitit', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
