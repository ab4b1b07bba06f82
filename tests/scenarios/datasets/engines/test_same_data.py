"""The same plan gives bitwise the same data set on every engine, whichever began it."""

from importlib import import_module
from importlib.util import find_spec

import pytest

from trainwreck.evaluation.files import read_json
from trainwreck.scenarios.datasets.engines import Local, Ray, Slurm
from trainwreck.scenarios.datasets.engines.slurm import FOLDER
from trainwreck.scenarios.datasets.generate import bundles, generate
from trainwreck.scenarios.spec.run_spec import family_of
from trainwreck.scenarios.training.environment import environment
from trainwreck.scenarios.training.loop import train

MODULE = import_module("trainwreck.scenarios.datasets.generate")
MISSING = [name for name in ("ray", "submitit") if find_spec(name) is None]
pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; pip install 'trainwreck[engines]'"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray", "ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
TINY = ("model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4", "steps=24")
ENGINES = {
    "local": lambda out: Local(2),
    "ray": lambda out: Ray(workers=2),
    "submitit": lambda out: Slurm(out, workers=2, cluster="local"),
}


@pytest.fixture(scope="module")
def specs():
    """Three runs in two bundles."""
    return family_of("mask_missing", [0], overrides=TINY)


@pytest.fixture(scope="module")
def alone(specs, tmp_path_factory):
    """By one worker, which is this process."""
    return generate(specs, tmp_path_factory.mktemp("data") / "alone")


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_writes_the_same_bytes(name, specs, alone, tmp_path):
    out = tmp_path / "out"
    found = generate(specs, out, engine=ENGINES[name](out))
    assert found.manifest["files"] == alone.manifest["files"]
    assert read_json(out / "plan.json") == read_json(alone.path / "plan.json")
    assert found.manifest["environment"] == environment()
    assert not (out / FOLDER).exists()


@pytest.mark.parametrize("name", ["ray", "submitit"])
def test_what_was_begun_here_is_finished_there(name, specs, alone, tmp_path, monkeypatch):
    out, calls = tmp_path / "out", []

    def interrupted(jobs, **where):
        if calls:
            raise KeyboardInterrupt
        calls.append(jobs)
        return train(jobs, **where)

    with monkeypatch.context() as patched:
        patched.setattr(MODULE, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            generate(specs, out)
    (begun,) = (out / "bundles").iterdir()
    before = begun.stat().st_mtime_ns
    found = generate(specs, out, engine=ENGINES[name](out))
    assert found.manifest["files"] == alone.manifest["files"]
    assert begun.stat().st_mtime_ns == before  # nobody trained it again
    assert len(bundles(specs)) == 2
