"""Parts of one plan are released as one data set."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import load, write_manifest, write_runs
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.release import release


def cut(data: Path, out: Path, bases: set[str], **facts: object) -> Path:
    """The runs of these bases as a data set of their own, their telemetry files whole. facts: of the manifest."""
    shutil.copytree(data, out)
    rows = pq.read_table(data / "runs.parquet").to_pylist()
    write_runs(out, [row for row in rows if row["base"] in bases])
    manifest = json.loads((data / "manifest.json").read_text("utf-8"))
    known = {key: value for key, value in manifest.items() if key not in ("files", "format", "schema_version")}
    write_manifest(out, known | {"environment": {"trainwreck": out.name}} | facts)
    return out


@pytest.fixture
def halves(data: Path, tmp_path: Path) -> list[Path]:
    """The data set with every seed a base of its own, in two parts."""
    manifest = json.loads((data / "manifest.json").read_text("utf-8"))
    rows = pq.read_table(data / "runs.parquet").to_pylist()
    write_runs(data, [row | {"base": f"base {row['seed']}"} for row in rows])
    write_manifest(data, {key: value for key, value in manifest.items() if key not in ("files", "format")})
    bases = sorted({f"base {row['seed']}" for row in rows})
    assert len(bases) > 1
    return [cut(data, tmp_path / "one", set(bases[:1])), cut(data, tmp_path / "two", set(bases[1:]))]


@pytest.mark.parametrize("logs", [False, True])
def test_parts_are_released_as_one(data: Path, halves: list[Path], tmp_path: Path, logs: bool) -> None:
    profiles = ("common",)
    whole = release(data, tmp_path / "whole", profiles=profiles, logs=logs)
    both = release(halves[0], tmp_path / "both", parts=halves[1:], profiles=profiles, logs=logs)
    columns = [name for name in whole.runs if name != "file"]
    pd.testing.assert_frame_equal(both.runs.sort_index()[columns], whole.runs.sort_index()[columns])
    for run_id in whole.runs.index:
        assert both.trace(run_id).to_table().equals(whole.trace(run_id).to_table())
    assert dict(both.pages) == dict(whole.pages)
    assert [one["trainwreck"] for one in both.manifest["environments"]] == ["one", "two"]
    cards = [score("loss_over_minimum", root, profile="common").to_dict()["points"] for root in (whole, both)]
    assert json.dumps(cards[0], sort_keys=True, default=str) == json.dumps(cards[1], sort_keys=True, default=str)
    # A release is a part as well.
    first = release(halves[0], tmp_path / "first", profiles=profiles, logs=logs)
    again = release(first.path, tmp_path / "again", parts=halves[1:], profiles=profiles, logs=logs)
    assert (again.path / "runs.parquet").read_bytes() == (both.path / "runs.parquet").read_bytes()


def test_a_single_data_set_has_no_other_environments(released: Path) -> None:
    assert "environments" not in load(released).manifest


def test_a_run_in_two_parts(halves: list[Path], tmp_path: Path) -> None:
    twice = shutil.copytree(halves[0], tmp_path / "twice")
    with pytest.raises(InputError, match=r"twice: run \S+ is in \S+one too; allowed: in one part"):
        release(halves[0], tmp_path / "rel", parts=[twice])
    assert not (tmp_path / "rel").exists()


def test_a_setup_in_two_parts(data: Path, tmp_path: Path) -> None:
    rows = pq.read_table(data / "runs.parquet").to_pylist()
    seeds = sorted({row["seed"] for row in rows})
    parts = []
    for name, own in (("a", seeds[:1]), ("b", seeds[1:])):
        parts.append(cut(data, tmp_path / name, {row["base"] for row in rows}))
        write_runs(parts[-1], [row for row in rows if row["seed"] in own])
        known = json.loads((parts[-1] / "manifest.json").read_text("utf-8"))
        write_manifest(parts[-1], {key: value for key, value in known.items() if key not in ("files", "format")})
    with pytest.raises(InputError, match=r"b: healthy setup .* is in .*a too; allowed: in one part"):
        release(parts[0], tmp_path / "rel", parts=parts[1:])


@pytest.mark.parametrize(("name", "value"), [("plan", "another"), ("backend", {"device": "cuda", "impl": "triton"})])
def test_parts_of_different_plans(data: Path, halves: list[Path], tmp_path: Path, name: str, value: object) -> None:
    bases = set(load(halves[1]).runs["base"])
    other = cut(data, tmp_path / "other", bases, **{name: value})
    with pytest.raises(
        InputError, match=f"other: {name}: .* is not allowed beside .*one; allowed: .*, as parts of one"
    ):
        release(halves[0], tmp_path / "rel", parts=[other])


def test_a_part_of_logs_is_released_as_logs(halves: list[Path], tmp_path: Path) -> None:
    first = release(halves[0], tmp_path / "first", profiles=("common",), logs=True)
    with pytest.raises(InputError, match="first: has the signals of logs alone; allowed: with --logs"):
        release(halves[1], tmp_path / "rel", parts=[first.path], profiles=("common",))
