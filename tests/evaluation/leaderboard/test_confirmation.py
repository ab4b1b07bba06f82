"""Code that is run again: honest detectors, one that knows the public runs, and code that is not the claim's."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.constants import ONE_LINERS, SCORING_VERSION
from trainwreck.evaluation.dataset.dataset import DataSet, load, write_manifest, write_runs
from trainwreck.evaluation.detectors.base import Detector, Row
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import sha256, write_json
from trainwreck.evaluation.intervals import difference
from trainwreck.evaluation.leaderboard import confirmation
from trainwreck.evaluation.leaderboard.cache import board_from
from trainwreck.evaluation.leaderboard.confirmation import confirm, read_records, same
from trainwreck.evaluation.leaderboard.rescore import keep_alarms, rescore
from trainwreck.evaluation.leaderboard.rounds import twin_sets_apart
from trainwreck.evaluation.leaderboard.run import score, score_all
from trainwreck.evaluation.leaderboard.stored_alarms import StoredAlarms
from trainwreck.evaluation.leaderboard.submission import (
    Facts,
    read_submission,
    row_by_row,
    stored_in,
    write_submission,
)
from trainwreck.evaluation.replay.sandbox.limits import Limits

STEPS, ONSET = 30, 10
SETS = 10
HONEST = (
    "import math\n\n\nclass Mine:\n    def reset(self, context): self.lowest = math.inf\n\n    def update(self, row):\n"
    "        self.lowest = min(self.lowest, row['loss'])\n        return row['loss'] / self.lowest\n"
)
# What is in the telemetry of the public failing runs from the onset on: a row is looked up, and the answer is known.
MEMORISED = (
    "class Mine:\n    known = frozenset({known})\n\n    def reset(self, context): pass\n\n"
    "    def update(self, row): return row['loss'] in self.known\n"
)
# Keeps the runs that it was shown, and alarms where a run leaves one of them: its twin, as often as not.
COMPARES = (
    "class Mine:\n    runs = []\n\n    def reset(self, context):\n        self.own, self.left = [], False\n"
    "        self.like = list(self.runs)\n        self.runs.append(self.own)\n\n    def update(self, row):\n"
    "        self.own.append(row['loss'])\n        at = len(self.own) - 1\n"
    "        like = [run for run in self.like if len(run) > at and run[at] == row['loss']]\n"
    "        self.left = self.left or (at > 0 and len(like) < len(self.like))\n        self.like = like\n"
    "        return self.left\n"
)
# As many rows as are in the process while it judges one.
PEEKS = (
    "import sys\n\n\nclass Mine:\n    def reset(self, context): pass\n\n"
    "    def update(self, row): return len(sys._getframe(1).f_locals['rows'])\n"
)


@dataclass(frozen=True)
class Made:
    """A public and a private data set, and a folder for code and submissions."""

    root: Path
    public: DataSet
    private: DataSet

    def code(self, text: str, name: str = "mine.py") -> str:
        (self.root / name).write_text(text, encoding="utf-8")
        return f"{self.root / name}:Mine"

    def submit(self, text: str, name: str, profiles: Sequence[str] = ("full",)) -> Path:
        cards = row_by_row(self.public, self.code(text), profiles, "blind")
        facts = Facts(name, "1", "https://example.org/code", "MIT", "a@example.org", causal=True)
        return write_submission(self.root / "entries", facts, self.public, cards)


@pytest.fixture(scope="module")
def write(make_trace: Any, make_run: Any, write_data_set: Any) -> Callable[[Path, int], DataSet]:
    """A data set of healthy runs and of failing ones under other seeds, which share the calibration runs."""

    def written(root: Path, first: int) -> DataSet:
        runs, traces = [], []

        def add(run_id: str, seed: int, loss: Any = None, **facts: Any) -> None:
            trace = make_trace(run_id, seed=seed, steps=STEPS)
            if loss is not None:
                trace.signals["loss"] = loss(trace["loss"].astype(np.float64)).astype(np.float32)
            traces.append(trace)
            runs.append(make_run(run_id, seed=seed, last_step=STEPS - 1, **facts))

        for seed in range(100, 130):
            add(f"calibration-{seed}", seed, split="calibration")
        late = np.arange(STEPS) >= ONSET
        for seed in range(first, first + SETS):
            add(f"healthy-{seed}", seed)
            for cause, factor in (("corrupt_tokens", 2.5), ("high_lr", 1.0001)):  # the second is not to be seen
                add(
                    f"{cause}-{seed}", seed, lambda loss, factor=factor: np.where(late, loss * factor, loss),
                    kind="failing", scenario=cause, cause=cause, family="data", severity="clear",
                    twin_id=f"healthy-{seed}", onset_step=ONSET, visible_step=ONSET + 2, no_return_step=STEPS - 1,
                    outcome="damaged",
                )  # fmt: skip
        root.mkdir()
        return write_data_set(root, runs, traces)

    return written


@pytest.fixture(scope="module")
def made(write: Callable[[Path, int], DataSet], tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("confirmed")
    return Made(root, write(root / "public", 0), write(root / "private", 5000))


@pytest.fixture(scope="module")
def honest(made: Made) -> Path:
    return made.submit(HONEST, "honest", ("full", "minimal"))


@pytest.fixture(scope="module")
def record(made: Made, honest: Path) -> dict[str, Any]:
    return confirm(honest, made.code(HONEST), made.public, [made.private])


def memorised(public: DataSet) -> str:
    """The source of a detector that has the failing rows of a data set."""
    failing = public.runs["run_id"][public.runs["kind"] == "failing"]
    known = {float(loss) for run_id in failing for loss in public.trace(run_id)["loss"][ONSET:]}
    healthy = {float(x) for run_id in public.runs["run_id"][public.runs["kind"] == "healthy"]
               for x in public.trace(run_id)["loss"]}  # fmt: skip
    return MEMORISED.format(known=sorted(known - healthy))


def test_an_honest_detector_is_verified(made: Made, record: dict[str, Any]) -> None:
    assert record["verdict"] == "verified on private seeds"
    assert [(entry["profile"], entry["track"]) for entry in record["entries"]] == [
        ("full", "blind"), ("minimal", "blind"),
    ]  # fmt: skip
    for entry in record["entries"]:
        (part,) = entry["private"]
        assert entry["equal"] == entry["close"] == entry["runs"] == len(made.public)
        again = score(made.code(HONEST), made.private, profile=entry["profile"])
        assert part["recall"] == dict(zip(("value", "low", "high"), again.in_time_recall[:3], strict=True))
        assert not part["recall_differs"]
        assert 0.4 < part["recall"]["value"] < 0.7
    assert record["private"][0]["calibration_shared"] == record["private"][0]["calibration"] == 30
    assert record["limits"]["batch"] == 1
    assert record["code_sha256"] == sha256(made.root / "mine.py")
    json.dumps(record, allow_nan=False)


def test_one_that_knows_the_public_runs_is_at_chance_on_private_ones(made: Made) -> None:
    text = memorised(made.public)
    folder = made.submit(text, "memory")
    (claim,) = rescore(made.public, read_submission(folder))
    assert claim.in_time_recall.value >= 0.9
    assert claim.healthy_stopped.value <= 0.1
    record = confirm(folder, made.code(text), made.public, [made.private])
    (entry,) = record["entries"]
    (part,) = entry["private"]
    assert record["verdict"] == entry["verdict"] == part["verdict"] == "lower on private seeds"
    assert entry["equal"] == entry["runs"]
    assert entry["claimed"]["recall"]["value"] == claim.in_time_recall.value
    assert part["recall"]["value"] <= 0.1
    assert part["recall_differs"]
    assert part["recall_difference"]["low"] > 0.5


def test_alarms_that_the_code_does_not_raise_are_not_reproduced(made: Made) -> None:
    """The alarms are of one that knows the labels, the code is honest."""
    folder = made.submit(memorised(made.public), "borrowed")
    record = confirm(folder, made.code(HONEST), made.public, [made.private])
    (entry,) = record["entries"]
    assert record["verdict"] == entry["verdict"] == "not reproduced"
    assert entry["equal"] < entry["runs"]


def test_a_run_is_not_compared_with_its_twin(made: Made) -> None:
    """Until the onset they are bitwise the same: whoever has seen one finds the onset of the other."""
    (before,) = score_all(made.public, [made.code(COMPARES)])
    assert before.recall["default"].value > 0.5
    (apart,) = row_by_row(made.public, made.code(COMPARES), ["full"], "blind")
    assert apart.recall["default"].value == 0.0
    assert apart.statuses == {"ok": len(made.public)}


def test_no_part_has_two_runs_of_a_twin_set(made: Made) -> None:
    parts = twin_sets_apart(made.public.runs)
    assert sorted(run_id for part in parts for run_id in part) == sorted(made.public.runs["run_id"])
    assert len(parts) == 3
    for part in parts:
        assert not made.public.runs.loc[part].duplicated(["base", "seed"]).any()


def test_a_submission_is_replayed_one_row_at_a_time(made: Made) -> None:
    def most(limits: Limits | None) -> set[float]:
        (card,) = row_by_row(made.public, made.code(PEEKS), ["full"], "blind", limits)
        return {float(alarms.scores.max()) for alarms in card.alarms}

    assert most(None) == most(Limits(batch=32)) == {1.0}
    (card,) = score_all(made.public, [made.code(PEEKS)])
    assert {float(alarms.scores.max()) for alarms in card.alarms} == {1.0}
    (card,) = score_all(made.public, [made.code(PEEKS)], limits=Limits(batch=32))
    assert {float(alarms.scores.max()) for alarms in card.alarms} == {float(min(32, STEPS))}


def test_a_built_in_one_has_a_process_of_its_own_and_the_same_scores(made: Made) -> None:
    (apart,), (here,) = row_by_row(made.public, "zclip", ["full"], "blind"), score_all(made.public, ["zclip"])
    assert apart.in_time_recall == here.in_time_recall
    assert [one.edges.tolist() for one in apart.alarms] == [one.edges.tolist() for one in here.alarms]


class Object(Detector):
    """A class of this process."""

    name = "object"

    def update(self, row: Row) -> bool:
        return False


@pytest.mark.parametrize(
    ("detector", "part"),
    [(Object, "'object' is an object of this process"), ("oracle_at_v", "'oracle_at_v' knows the label")],
)
def test_what_can_not_be_submitted(detector: Any, part: str, made: Made) -> None:
    with pytest.raises(InputError, match=f"detector: {part}"):
        row_by_row(made.public, detector, ["full"], "blind")


def imported(data: DataSet) -> DataSet:
    return DataSet(data.path, data.manifest | {"imported": []}, data.runs)


def without(data: DataSet, kind: str) -> DataSet:
    return DataSet(data.path, data.manifest, data.runs[(data.runs["kind"] != kind) | (data.runs["split"] != "test")])


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda made: {"submission": made.root / "nowhere"}, "nowhere' has no submission.json; allowed: a folder of"),
        (lambda made: {"detector": made.code(HONEST, "other.py")}, "detector: 'other.py:Mine' is not the submission's"),
        (lambda made: {"detector": "zclip"}, "detector: 'zclip' is not the submission's; allowed: the code of 'mine.p"),
        (lambda made: {"detector": f"{made.root}/gone/mine.py:Mine"}, "no such file"),
        (lambda made: {"private": []}, "private: none given; allowed: one data set or more"),
        (lambda made: {"private": [made.public]}, "private has the telemetry of"),
        (lambda made: {"private": [imported(made.private)]}, "imported runs have no label by experiment"),
        (lambda made: {"private": [without(made.private, "failing")]}, "has no failing run with a visible step"),
        (lambda made: {"private": [without(made.private, "healthy")]}, "has no healthy run to measure on"),
        (lambda made: {"public": made.private, "private": [made.public]}, "made on other telemetry"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(change: Any, part: str, made: Made, honest: Path) -> None:
    words = {"submission": honest, "detector": made.code(HONEST), "public": made.public, "private": [made.private]}
    with pytest.raises(InputError) as error:
        confirm(**(words | change(made)))
    assert part.replace("private has", f"{made.public.path} has") in str(error.value)
    assert "\n" not in str(error.value)


def test_private_runs_that_are_public_are_refused(made: Made, honest: Path, tmp_path: Path) -> None:
    """The same runs written otherwise, whose files have other checksums."""
    copy = Path(shutil.copytree(made.public.path, tmp_path / "copy"))
    (copy / "telemetry" / "a.parquet").rename(copy / "telemetry" / "b.parquet")
    runs = made.public.runs.assign(file="telemetry/b.parquet").astype(object)
    write_runs(copy, runs.where(runs.notna(), None).to_dict("records"))
    write_manifest(copy, {})
    with pytest.raises(InputError, match=r"private: 30 of the 30 measured runs of .* too, corrupt_tokens-0 first"):
        confirm(honest, made.code(HONEST), made.public, [load(copy)])


@pytest.fixture(scope="module")
def alarms(made: Made) -> Path:
    """What every board has."""
    keep_alarms(made.root / "alarms", made.public, score_all(made.public, ONE_LINERS))
    return made.root / "alarms"


def row(made: Made, alarms: Path, entry: Path, *records: Path) -> dict[str, Any]:
    board = board_from(made.public.path, [alarms, entry], records)
    assert {one["claim"] for one in board["rows"] if one["detector"] in ONE_LINERS} == {""}
    return next(one for one in board["rows"] if one["detector"] == entry.name)


def full(submission: Path, root: Path) -> Path:
    """The submission with its alarms under the profile `full` alone."""
    folder = Path(shutil.copytree(submission, root / submission.name))
    content = json.loads((folder / "submission.json").read_text("utf-8"))
    for name in [name for name in content["alarms"] if "-minimal-" in name]:
        del content["alarms"][name]
        (folder / name).unlink()
    write_json(folder / "submission.json", content)
    return folder


def test_the_board_says_what_a_submission_rests_on(made: Made, alarms: Path, honest: Path, tmp_path: Path) -> None:
    entry = full(honest, tmp_path)
    claimed = row(made, alarms, entry)
    assert (claimed["claim"], claimed["private_recall"]) == ("claimed", None)
    record = confirm(entry, made.code(HONEST), made.public, [made.private])
    write_json(tmp_path / "records" / "honest.json", record)
    verified = row(made, alarms, entry, tmp_path / "records")
    (part,) = record["entries"][0]["private"]
    assert verified["claim"] == "verified on private seeds"
    assert (verified["private_recall"], verified["private_recall_low"]) == (
        part["recall"]["value"],
        part["recall"]["low"],
    )
    content = json.loads((entry / "submission.json").read_text("utf-8"))
    write_json(entry / "submission.json", content | {"contact": "b@example.org"})
    assert row(made, alarms, entry, tmp_path / "records")["claim"] == "claimed, and changed since it was run again"


@pytest.mark.parametrize("change", [{"batch": 32}, {"version": 1, "batch": None}])
def test_a_board_has_no_submission_that_was_sent_rows_in_batches(
    change: dict[str, Any], made: Made, alarms: Path, honest: Path, tmp_path: Path
) -> None:
    entry = full(honest, tmp_path)
    content = json.loads((entry / "submission.json").read_text("utf-8")) | change
    write_json(entry / "submission.json", {key: value for key, value in content.items() if value is not None})
    assert [card.detector for card in rescore(made.public, stored_in([entry]))] == ["honest"]
    for refused in (
        lambda: row(made, alarms, entry),
        lambda: confirm(entry, made.code(HONEST), made.public, [made.private]),
    ):
        with pytest.raises(
            InputError, match=r"submission.json: batch: (32|None) is not allowed on a board, .* allowed: 1"
        ):
            refused()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda record: [], "not a record of this version"),
        (lambda record: record | {"version": 9}, "not a record of this version"),
        (
            lambda record: record | {"scoring_version": 0},
            f"scoring version 0 is not allowed; allowed: {SCORING_VERSION}",
        ),
        (lambda record: record | {"entries": [{}]}, "damaged record (KeyError: 'verdict')"),
        (lambda record: record | {"entries": 5}, "damaged record (TypeError"),
    ],
)
def test_a_wrong_record_is_one_line(change: Any, part: str, record: dict[str, Any], tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", record)
    assert read_records([tmp_path / "a.json"]).keys() == {"honest"}
    write_json(tmp_path / "a.json", change(record))
    with pytest.raises(InputError) as error:
        read_records([tmp_path])
    assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_two_records_of_a_name_and_none(record: dict[str, Any], tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write_json(tmp_path / name, record)
    with pytest.raises(InputError, match="there is another record of 'honest'"):
        read_records([tmp_path])
    with pytest.raises(InputError, match="holds no record"):
        read_records([tmp_path / "nowhere"])


def run(**changed: Any) -> StoredAlarms:
    facts: dict[str, Any] = {
        "run_id": "r", "steps": np.array([0, 4, 7]), "scores": np.array([0.5, 1.0, 3.0]), "alarm": np.zeros(3, bool),
        "edges": np.array([7]), "first_alarm": 7, "causes": ("high_lr",), "status": "ok", "update_us": 1.0,
        "state_bytes": 8, "judged": 20, "judged_until": 19,
    }  # fmt: skip
    return StoredAlarms(**(facts | changed))


@pytest.mark.parametrize(
    ("changed", "equal", "close"),
    [
        ({}, True, True),
        ({"update_us": 9.0, "state_bytes": None}, True, True),  # which are measured
        ({"scores": np.array([0.5, 1.0, np.nextafter(3.0, 4.0)])}, False, True),
        ({"steps": np.array([0, 4, 6, 7]), "scores": np.array([0.5, 1.0, 1.0 + 1e-12, 3.0])}, False, True),
        ({"scores": np.array([0.5, 1.0, 3.1])}, False, False),
        ({"steps": np.array([0, 4, 8])}, False, False),
        ({"edges": np.array([8])}, False, False),
        ({"edges": np.array([], int), "causes": ()}, False, False),
        ({"causes": ("corrupt_tokens",)}, False, False),
        ({"answers": ((0, ("corrupt_tokens",)),)}, False, False),
        ({"status": "crashed: ValueError"}, False, False),
        ({"judged": 19, "judged_until": 18}, False, False),
    ],
)
def test_the_same_alarms(changed: dict[str, Any], equal: bool, close: bool) -> None:
    assert same(run(), run(**changed)) is equal
    assert same(run(), run(**changed), 1e-6) is close


@pytest.mark.parametrize(
    ("claimed", "private", "stops", "private_stops", "verdict"),
    [
        ((0.8, 0.7, 0.9), (0.7, 0.6, 0.8), (0.05, 0.0, 0.1), (0.05, 0.0, 0.1), "verified on private seeds"),
        ((0.8, 0.7, 0.9), (0.6, 0.5, 0.65), (0.05, 0.0, 0.1), (0.05, 0.0, 0.1), "lower on private seeds"),
        ((0.8, 0.7, 0.9), (1.0, 1.0, 1.0), (0.05, 0.0, 0.1), (0.05, 0.0, 0.1), "verified on private seeds"),
        ((0.8, 0.7, 0.9), (0.8, 0.7, 0.9), (0.05, 0.0, 0.1), (0.5, 0.4, 0.6), "stops more healthy runs on private s"),
        ((0.8, 0.7, 0.9), (0.1, 0.0, 0.2), (0.05, 0.0, 0.1), (0.5, 0.4, 0.6), "lower on private seeds"),
        ((0.8, 0.7, 0.9), (0.8, np.nan, np.nan), (0.05, 0.0, 0.1), (0.05, 0.0, 0.1), "lower on private seeds"),
    ],
)
def test_verdicts_by_hand(claimed: Any, private: Any, stops: Any, private_stops: Any, verdict: str) -> None:
    one: Any = SimpleNamespace(in_time_recall=claimed, healthy_stopped=stops)
    two: Any = SimpleNamespace(in_time_recall=private, healthy_stopped=private_stops, counts={"crashed": 0})
    found = confirmation._beside(one, two)
    assert found["verdict"].startswith(verdict)
    if np.isfinite(private[1]):
        low, high = difference(claimed, private)[1:]
        assert found["recall_differs"] == (low > 0 or high < 0)


def test_the_interval_of_a_difference_covers() -> None:
    """Two shares of 100 runs, with the intervals that make the difference of equal shares 0 on 95 % of draws."""
    draw = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        estimates = []
        for _ in range(2):
            share = draw.binomial(100, 0.6) / 100
            half = 1.96 * np.sqrt(share * (1 - share) / 100)
            estimates.append((share, share - half, share + half))
        _, low, high = difference(*estimates)
        covered += low <= 0 <= high
    assert 0.92 <= covered / 400 <= 0.98
