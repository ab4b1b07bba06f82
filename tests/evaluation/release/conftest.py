"""A small data set with its leaderboard, and the release of it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load, write_manifest, write_runs
from trainwreck.evaluation.leaderboard.cache import leaderboard_of
from trainwreck.evaluation.release import release

PUBLISHED, URL = "2026-01-31", "https://example.org/data"


def edit_runs(root: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change rows of a data set's runs table, and its manifest with them."""
    manifest = json.loads((root / "manifest.json").read_text("utf-8"))
    write_runs(root, [row | change(row) for row in pq.read_table(root / "runs.parquet").to_pylist()])
    write_manifest(root, {key: value for key, value in manifest.items() if key not in ("files", "format")})


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory, write_small_data_set: Callable[..., DataSet]) -> Path:
    """20 runs of 40 steps, scored; a run's spec names its scenario and seed. Read only."""
    root = tmp_path_factory.mktemp("source") / "data"
    root.mkdir()
    write_small_data_set(root)
    edit_runs(root, lambda row: {"spec": json.dumps({"scenario": row["scenario"] or "high_lr", "seed": row["seed"]})})
    leaderboard_of(root)
    return root


@pytest.fixture(scope="session")
def released(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its release. Read only."""
    out = tmp_path_factory.mktemp("released") / "rel"
    release(source, out, published=PUBLISHED, url=URL)
    return out


@pytest.fixture
def data(source: Path, tmp_path: Path) -> Path:
    """A copy of the data set to write to."""
    return Path(shutil.copytree(source, tmp_path / "data"))


@pytest.fixture
def rel(released: Path, tmp_path: Path) -> Path:
    """A copy of the release to write to."""
    return Path(shutil.copytree(released, tmp_path / "rel"))


@pytest.fixture
def private(data: Path) -> Path:
    """The data set with the runs of seed 2 private, but for one healthy run to calibrate on."""
    edit_runs(data, lambda row: {"split": "private"} if row["seed"] == 2 else {})
    assert (load(data).runs["split"] == "private").sum() == 6
    return data


@pytest.fixture
def unharmed(data: Path) -> Path:
    """The data set with a run whose fault is not shown, and a latent one."""
    labels = {
        "run-0-1": {"kind": "not shown", "signatures": '{"high_lr": false}'},
        "run-1-1": {"kind": "latent", "signatures": '{"corrupt_tokens": true}'},
    }
    edit_runs(data, lambda row: labels.get(row["run_id"], {}))
    return data
