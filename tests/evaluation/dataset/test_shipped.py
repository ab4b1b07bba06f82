"""The sample in the package: whole, of this version, small, and something to score at once."""

import hashlib
from pathlib import Path

import pytest

import trainwreck
from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.sample import is_sample, named, sample
from trainwreck.evaluation.dataset.schema import SCHEMA_VERSION, RunKind
from trainwreck.evaluation.detectors.registry import known_detectors
from trainwreck.evaluation.files import read_json
from trainwreck.evaluation.labels.visible import FEWEST
from trainwreck.evaluation.leaderboard.cache import SCORES, leaderboard_of
from trainwreck.evaluation.leaderboard.run import leaderboard, score

LARGEST = 4_000_000  # bytes in all
MEASURED = ("recall_0.05", "recall_default", "stopped_0.05", "stopped_look_alike_0.05", "lead", "skill", "top1", "area")


@pytest.fixture(scope="module")
def data() -> DataSet:
    return load(sample())


def test_it_is_of_this_version_and_every_checksum_is_right(data: DataSet) -> None:
    assert data.manifest["schema_version"] == SCHEMA_VERSION, "`make sample` makes it anew"
    lines = (sample() / "SHA256SUMS").read_text("utf-8").splitlines()
    for line in lines:
        checksum, name = line.split("  ")
        assert hashlib.sha256((sample() / name).read_bytes()).hexdigest() == checksum, name
    files = {path.relative_to(sample()).as_posix() for path in sample().rglob("*") if path.is_file()}
    assert files == {line.split("  ")[1] for line in lines} | {"SHA256SUMS"}


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in sample().rglob("*") if path.is_file()) <= LARGEST


def test_it_has_something_of_each_kind(data: DataSet) -> None:
    runs = data.runs
    kinds = {RunKind.FAILING, RunKind.HEALTHY, RunKind.CURED, RunKind.LOOK_ALIKE}
    assert {kind.value for kind in kinds} <= set(runs["kind"])
    assert runs.query("kind == 'failing'")["family"].nunique() >= 5
    assert set(runs.query("twin_id != ''")["twin_id"]) <= set(runs.index)
    calibration = runs[runs["split"] == "calibration"]
    assert (calibration.groupby("base").size() >= FEWEST).all()
    assert set(runs["base"]) == set(calibration["base"])


def test_it_can_be_scored_without_training(data: DataSet) -> None:
    card = score("nonfinite_loss", data)
    scored = data.runs[data.runs["split"] != "train"]
    ended = scored[scored["outcome"] == "non_finite"]
    assert len(ended) >= 1
    failing = scored.query("kind == 'failing'").index
    found = {alarms.run_id for alarms in card.alarms if alarms.first_alarm is not None}
    assert found & set(failing) == set(ended.index)
    assert card.recall["default"].value == pytest.approx(len(ended) / len(failing))


def test_its_baselines_are_those_of_this_version(data: DataSet) -> None:
    """Of the two detectors that change most: the rules that were added to, and the weights that were trained again."""
    shipped = {row["detector"]: row for row in read_json(sample() / "baselines.json")["rows"]}
    for row in leaderboard(data, ["playbook", "learned"], ["full"]).to_frame().to_dict("records"):
        numbers = {key: row[key] for key in MEASURED}
        old = {key: shipped[row["detector"]][key] for key in MEASURED}
        assert numbers == pytest.approx(old), "`trainwreck release sample --out DIR` makes them anew"


def test_its_baselines_are_of_every_detector() -> None:
    """Those of other projects' libraries too, whether or not they are installed here."""
    shipped = {row["detector"] for row in read_json(sample() / "baselines.json")["rows"]}
    assert not known_detectors().keys() - shipped, "`make sample` installs the libraries that they need"


def test_the_word_is_a_folder_of_ones_own_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert trainwreck.sample() == sample() == named(Path("sample"))
    assert is_sample(named(Path("sample")))
    assert named(Path("other")) == Path("other")
    (tmp_path / "sample").mkdir()
    assert named(Path("sample")) == Path("sample")
    assert not is_sample(Path("sample"))


def test_nothing_is_written_into_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainwreck.evaluation.leaderboard.cache.board_cards", lambda *rest, **options: [])
    monkeypatch.setattr("trainwreck.evaluation.leaderboard.cache.standing", lambda *rest: {"rows": [1]})
    assert leaderboard_of(sample()) == {"rows": [1]}
    assert not (sample() / SCORES).exists()
