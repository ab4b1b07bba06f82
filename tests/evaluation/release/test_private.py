"""Private runs are in no public release, nor anything from which they could be guessed."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import load, write_manifest, write_runs
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.release import release


def rows(root: Path) -> list[dict[str, object]]:
    return list(pq.read_table(root / "runs.parquet").to_pylist())


def rewrite(root: Path, changed: list[dict[str, object]], **facts: object) -> None:
    write_runs(root, changed)
    write_manifest(root, {"plan": "small", "environment": {}, **facts})


def test_they_are_left_out(private: Path, tmp_path: Path) -> None:
    hidden = {row["run_id"] for row in rows(private) if row["split"] == "private"}
    rewrite(private, rows(private), plan_hash="5ec2e7")
    data = release(private, tmp_path / "rel")
    assert set(data.runs["split"]) == {"calibration", "test"}
    assert len(data) == 14
    assert not hidden & set(data.runs.index)
    assert "plan_hash" not in data.manifest, "with it, a guess at the private seeds could be checked"
    names = [path.relative_to(tmp_path / "rel").as_posix() for path in (tmp_path / "rel").rglob("*")]
    assert not [name for name in names if "private" in name]
    for path in (tmp_path / "rel").rglob("*"):
        if path.is_file() and path.suffix != ".parquet":
            text = path.read_text("utf-8")
            assert not [run_id for run_id in hidden if f'"{run_id}"' in text], path
    for path in (tmp_path / "rel/telemetry").rglob("*.parquet"):
        assert not hidden & set(pq.read_table(path, columns=["run_id"]).column(0).to_pylist())
    plan = json.loads((tmp_path / "rel/plan.json").read_text("utf-8"))
    assert {run["seed"] for run in plan["runs"]} == {0, 1, 100, 101, 102, 103}


def test_nothing_is_dropped_where_nothing_is_private(source: Path, released: Path) -> None:
    assert load(released).manifest.keys() - {"release"} == load(source).manifest.keys()


def test_a_scenario_that_only_private_runs_have_is_not_on_the_pages(private: Path, tmp_path: Path) -> None:
    name = "benign_late_drop"
    only = {"scenario": name, "spec": json.dumps({"seed": 2, "scenario": name})}
    held_out = [row | only if row["run_id"] == "spike" else row for row in rows(private)]
    page = {"title": "A title", "family": "data", "telling": "loss", "sections": {}}
    (private / "catalogue.json").write_text(json.dumps(dict.fromkeys(("high_lr", "corrupt_tokens", name), page)))
    rewrite(private, held_out)
    release(private, tmp_path / "rel")
    assert set(json.loads((tmp_path / "rel/catalogue.json").read_text("utf-8"))) == {"high_lr", "corrupt_tokens"}
    assert name not in (tmp_path / "rel/README.md").read_text("utf-8")


def test_they_are_written_apart_with_those_to_calibrate_on(private: Path, tmp_path: Path) -> None:
    data = release(private, tmp_path / "rel", private=True)
    assert data.runs["split"].value_counts().to_dict() == {"private": 6, "calibration": 4}
    text = (tmp_path / "rel/README.md").read_text("utf-8")
    assert "This part is private" in text
    assert json.loads((tmp_path / "rel/croissant.json").read_text("utf-8"))["name"] == "trainwreck-small-private"


def test_there_is_no_private_part_of_a_public_data_set(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no run of split 'private'"):
        release(source, tmp_path / "rel", private=True)


def test_a_data_set_of_nothing_else_has_no_public_part(private: Path, tmp_path: Path) -> None:
    rewrite(private, [row | {"split": "private"} for row in rows(private)])
    with pytest.raises(InputError, match="every run is private; allowed: --private"):
        release(private, tmp_path / "rel")


def test_runs_to_calibrate_on_that_have_seeds_of_a_salt_stay_behind_too(private: Path, tmp_path: Path) -> None:
    """With their seeds the salt could be tried out, and a detector that knows them can lower its threshold."""
    drawn = [row | ({"seed": 10_000 + row["seed"]} if row["split"] == "calibration" else {}) for row in rows(private)]
    rewrite(private, drawn)
    assert set(release(private, tmp_path / "rel").runs["split"]) == {"test"}
    apart = release(private, tmp_path / "apart", private=True).runs
    assert apart["split"].value_counts().to_dict() == {"private": 6, "calibration": 4}
    # Nothing is private here, whatever the seeds are.
    rewrite(private, [row | {"split": "test" if row["split"] == "private" else row["split"]} for row in drawn])
    assert set(release(private, tmp_path / "open").runs["split"]) == {"calibration", "test"}


def test_a_private_plan_alone_has_no_public_part(private: Path, tmp_path: Path) -> None:
    table = [row for row in rows(private) if row["split"] in ("private", "calibration")]
    rewrite(private, [row | ({"seed": 10_000} if row["split"] == "calibration" else {}) for row in table])
    with pytest.raises(InputError, match="every run is private; allowed: --private"):
        release(private, tmp_path / "rel")


def test_a_twin_that_would_stay_behind_is_named(private: Path, tmp_path: Path) -> None:
    rewrite(private, [row | ({"split": "test"} if row["run_id"] == "spike" else {}) for row in rows(private)])
    with pytest.raises(InputError, match="run spike is released, its twin healthy-2 is not"):
        release(private, tmp_path / "rel")
    assert not (tmp_path / "rel").exists()


@pytest.mark.parametrize("split", ["../up", "a b", "hold-out", ""])
def test_a_split_that_is_no_word_is_refused(split: str, private: Path, tmp_path: Path) -> None:
    rewrite(private, [row | {"split": split} for row in rows(private)])
    with pytest.raises(InputError, match=f"split: {split!r} is not allowed"):
        release(private, tmp_path / "rel")
