"""Labels from telemetry: visible steps, outcome and kind of synthetic runs; labelling again changes nothing."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import load, write_manifest, write_runs, write_telemetry
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.labelling import label_runs, relabel

STEPS, ONSET = 60, 20
FAULT = {
    "scenario": "high_lr", "cause": "high_lr", "family": "optimisation", "severity": "clear", "onset_step": ONSET,
    "tolerance": 0.125, "outcome": None, "final_gap": None, "last_step": STEPS - 1,
}  # fmt: skip
MEASURED = {
    "visible_step", "visible_steps", "visible_profiles", "outcome", "kind", "final_gap", "no_return_step",
    "no_return_branches", "no_return_monotone",
}  # fmt: skip

late = np.arange(STEPS) >= ONSET + 5
middle = late & (np.arange(STEPS) < 40)

# kind as injected, change of a signal, final loss less the twin's -> kind, outcome, visible steps
CASES: dict[str, tuple[str, dict[str, Callable[[np.ndarray], np.ndarray]], float | None, str, str, dict[str, int]]] = {
    "harmed": ("failing", {"loss": lambda y: y + 5 * late}, 2.0, "failing", "damaged", {"loss": 25}),
    "harmed for a time": ("failing", {"loss": lambda y: y + 5 * middle}, 0.05, "failing", "recovered", {"loss": 25}),
    "harmed below": ("failing", {"loss": lambda y: y - 5 * late}, -0.2, "failing", "damaged", {"loss": 25}),
    "harmed unseen": ("failing", {}, 0.2, "failing", "damaged", {}),
    "lost": (
        "failing", {"loss": lambda y: np.where(late, np.nan, y)}, None, "failing", "non_finite", {"loss": 25},
    ),
    "unharmed": ("failing", {}, 0.0, "latent", "recovered", {}),
    "at the tolerance": ("failing", {}, 0.125, "latent", "recovered", {}),
    "unharmed but visible": (
        "failing", {"grad_norm": lambda y: y * np.where(late, 30, 1)}, 0.0, "latent", "recovered", {"grad_norm": 25},
    ),
    "once called latent": ("latent", {"loss": lambda y: y + 5 * late}, 2.0, "failing", "damaged", {"loss": 25}),
    "look-alike": ("look-alike", {"loss": lambda y: y + 5 * middle}, 0.0, "look-alike", "recovered", {"loss": 25}),
    "look-alike that harms": (
        "look-alike", {"loss": lambda y: y + 5 * late}, 2.0, "look-alike", "damaged", {"loss": 25},
    ),
    "cured": ("cured", {"loss": lambda y: y + 5 * middle}, 0.02, "cured", "recovered", {"loss": 25}),
    "cured in vain": ("cured", {"loss": lambda y: y + 5 * late}, 2.0, "cured", "damaged", {"loss": 25}),
}  # fmt: skip


@pytest.fixture(scope="module")
def healthy(make_trace: Any) -> list[Trace]:
    return [make_trace(f"healthy-{seed}", seed=seed, steps=STEPS) for seed in range(8)]


def rows_and_traces(
    make_run: Any, healthy: list[Trace], cases: Any = CASES
) -> tuple[list[dict[str, Any]], list[Trace]]:
    rows = [
        make_run(t.run_id, seed=i, outcome=None, final_gap=None, last_step=STEPS - 1) for i, t in enumerate(healthy)
    ]
    traces = list(healthy)
    for name, (kind, changes, gap, *_) in cases.items():
        twin = healthy[0]
        signals = twin.signals | {k: change(twin[k].astype(np.float64)) for k, change in changes.items()}
        traces.append(Trace(name, {k: v.astype(np.float32) for k, v in signals.items()}, twin.evaluated))
        fault = FAULT | {"final_loss": None if gap is None else 2.0 + gap}
        if kind == "look-alike":
            fault["cause"] = ""
        rows.append(make_run(name, kind=kind, seed=0, twin_id=twin.run_id, **fault))
    return rows, traces


@pytest.fixture(scope="module")
def labelled(make_run: Any, healthy: list[Trace]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    rows, traces = rows_and_traces(make_run, healthy)
    found = label_runs(rows, {t.run_id: t for t in traces}.__getitem__)
    return {before["run_id"]: (before, after) for before, after in zip(rows, found, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_kind_outcome_and_visible_steps(name: str, labelled: Any) -> None:
    _, _, gap, kind, outcome, steps = CASES[name]
    row = labelled[name][1]
    assert (row["kind"], row["outcome"], json.loads(row["visible_steps"])) == (kind, outcome, steps)
    assert row["visible_step"] == min(steps.values(), default=None)
    assert row["final_gap"] == (None if gap is None else pytest.approx(gap))


def test_a_healthy_run_has_no_visible_step(labelled: Any) -> None:
    row = labelled["healthy-3"][1]
    assert (row["kind"], row["outcome"], row["visible_step"]) == ("healthy", "recovered", None)


def test_what_was_injected_is_never_touched(labelled: Any) -> None:
    for before, after in labelled.values():
        assert list(after) == list(before)
        assert {k: v for k, v in after.items() if k not in MEASURED} == {
            k: v for k, v in before.items() if k not in MEASURED
        }
        assert before["outcome"] is None, "the rows handed in are left as they were"


def test_the_order_of_rows_changes_no_label(make_run: Any, healthy: list[Trace], labelled: Any) -> None:
    rows, traces = rows_and_traces(make_run, healthy)
    found = label_runs(rows[::-1], {t.run_id: t for t in traces}.__getitem__)
    assert found[::-1] == [after for _, after in labelled.values()]


def test_a_base_with_too_few_healthy_runs_gets_no_visible_step(make_run: Any, healthy: list[Trace]) -> None:
    """Its outcome is still known. Runs of another base do not stand in."""
    rows, traces = rows_and_traces(make_run, healthy)
    other, more = rows_and_traces(make_run, [Trace(f"other-{t.run_id}", t.signals, t.evaluated) for t in healthy[:7]])
    for row, trace in zip(other, more, strict=True):
        if row["kind"] != "healthy":
            row["run_id"] = trace.run_id = f"other {row['run_id']}"
        row["base"] = "other"
    found = label_runs(rows + other, {t.run_id: t for t in traces + more}.__getitem__)[len(rows) :]
    for before, after in zip(other, found, strict=True):
        assert (after["visible_step"], after["visible_steps"], after["kind"]) == (None, "{}", before["kind"])
    assert [row["outcome"] for row in found[7:]] == [outcome for *_, outcome, _ in CASES.values()]


@pytest.fixture
def folder(tmp_path: Path, make_run: Any, healthy: list[Trace]) -> Path:
    rows, traces = rows_and_traces(make_run, healthy)
    write_telemetry(tmp_path, "telemetry/a.parquet", traces)
    write_runs(tmp_path, rows)
    write_manifest(tmp_path, {"plan": "p", "environment": {"trainwreck": "0"}})
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    files = sorted(f for f in folder.rglob("*") if f.is_file())
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_labelling_again_writes_the_labels_and_then_changes_nothing(folder: Path, labelled: Any) -> None:
    before = contents(folder)
    rows = relabel(folder)
    once = contents(folder)
    assert [row["kind"] for row in rows] == [after["kind"] for _, after in labelled.values()]
    assert pq.read_table(folder / "runs.parquet").to_pylist() == rows
    assert {name for name in once if once[name] != before[name]} == {"runs.parquet", "manifest.json"}
    assert relabel(folder) == rows
    assert contents(folder) == once
    manifest = load(folder).manifest
    assert (manifest["plan"], manifest["environment"]) == ("p", {"trainwreck": "0"})


def test_an_earlier_label_is_measured_anew(folder: Path) -> None:
    right = relabel(folder)
    wrong = [dict(row) for row in right]
    for row in wrong:
        row |= {"visible_step": 21, "visible_steps": '{"log_z": 21}', "outcome": "recovered"}
        if row["kind"] in ("failing", "latent"):
            row["kind"] = "latent"
    write_runs(folder, wrong)
    write_manifest(folder, {})
    assert relabel(folder) == right


@pytest.mark.parametrize("stage", ["label_runs", "write_runs"])
def test_a_failure_on_the_way_leaves_the_data_set_as_it_was(
    folder: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(folder)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken off")

    if stage == "label_runs":
        monkeypatch.setattr("trainwreck.evaluation.labels.labelling.label_runs", fail)
    else:
        monkeypatch.setattr("trainwreck.evaluation.files.pq.ParquetWriter.write_table", fail)
    with pytest.raises(RuntimeError, match="broken off"):
        relabel(folder)
    assert contents(folder) == before


def test_a_damaged_data_set_is_not_labelled(folder: Path) -> None:
    with (folder / "telemetry/a.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match=r"a\.parquet: damaged"):
        relabel(folder)


def test_a_compound_run_is_latent_unless_harmed(make_run: Any, healthy: list[Trace]) -> None:
    rows, traces = rows_and_traces(make_run, healthy)
    for row in rows:
        if row["kind"] in ("failing", "latent"):
            row |= {"scenario": "a+b", "kind": "compound"}
    by_id = {t.run_id: t for t in traces}
    once = label_runs(rows, by_id.__getitem__)
    kinds = {row["run_id"]: row["kind"] for row in once if row["scenario"] == "a+b"}
    expected = {name: CASES[name][3].replace("failing", "compound") for name in kinds}
    assert kinds == expected
    assert {"compound", "latent"} == set(kinds.values())
    assert label_runs(once, by_id.__getitem__) == once  # a latent one is still two


# harm, signatures, change of the loss, final loss less the twin's -> kind, outcome
ALTERED: dict[str, tuple[str, str, Callable[[np.ndarray], np.ndarray], float | None, str, str]] = {
    "better than its twin": ("above", '{"a": false}', lambda y: y - 5 * late, -0.21, "not shown", "recovered"),
    "better, and shown for a time": ("above", '{"a": true}', lambda y: y - 5 * late, -0.21, "failing", "recovered"),
    "better, and lost for a time": ("above", '{"a": false}', lambda y: y + 5 * middle, -0.21, "failing", "recovered"),
    "worse": ("above", '{"a": false}', lambda y: y + 5 * late, 2.0, "failing", "damaged"),
    "worse at the end alone": ("above", '{"a": false}', lambda y: y, 0.2, "failing", "damaged"),
    "nothing": ("above", '{"a": false}', lambda y: y, 0.0, "not shown", "recovered"),
    "shown without harm": ("above", '{"a": true}', lambda y: y, 0.0, "latent", "recovered"),
    "a leak": ("below", '{"a": true}', lambda y: y - 5 * late, -2.0, "failing", "damaged"),
    "a leak that ends above": ("below", '{"a": false}', lambda y: y + 5 * late, 2.0, "not shown", "recovered"),
    "lost": ("below", '{"a": false}', lambda y: np.where(late, np.nan, y), None, "failing", "non_finite"),
    "one of two shown": ("above", '{"a": true, "b": false}', lambda y: y, 0.0, "latent", "recovered"),
    "none of two shown": ("either", '{"a": false, "b": false}', lambda y: y, 0.0, "not shown", "recovered"),
}


@pytest.fixture
def altered(make_run: Any, healthy: list[Trace]) -> tuple[list[dict[str, Any]], list[Trace]]:
    cases = {name: ("failing", {"loss": change}, gap) for name, (_, _, change, gap, *_) in ALTERED.items()}
    rows, traces = rows_and_traces(make_run, healthy, cases)
    for row in rows[len(healthy) :]:
        row["harm"], row["signatures"] = ALTERED[row["run_id"]][:2]
    return rows, traces


def test_a_kind_is_made_of_harm_on_the_declared_side_and_of_the_signature(altered: Any, healthy: list[Trace]) -> None:
    rows, traces = altered
    by_id = {t.run_id: t for t in traces}
    once = label_runs(rows, by_id.__getitem__)
    found = {row["run_id"]: (row["kind"], row["outcome"]) for row in once[len(healthy) :]}
    assert found == {name: (kind, outcome) for name, (*_, kind, outcome) in ALTERED.items()}
    assert label_runs(once, by_id.__getitem__) == once, "what is not shown may be shown once more, and is not"
    for row in once:
        if row["kind"] == "not shown":
            row["signatures"] = '{"a": true}'
    again = label_runs(once, by_id.__getitem__)
    assert {row["kind"] for row in again[len(healthy) :]} == {"failing", "latent"}


def test_a_pair_that_shows_nothing_is_not_shown_and_one_that_is_harmed_is_a_compound(altered: Any) -> None:
    rows, traces = altered
    for row in rows:
        if row["kind"] == "failing":
            row["scenario"] = "a+b"
    found = label_runs(rows, {t.run_id: t for t in traces}.__getitem__)
    kinds = {row["run_id"]: row["kind"] for row in found if row["scenario"] == "a+b"}
    assert kinds == {name: kind.replace("failing", "compound") for name, (*_, kind, _) in ALTERED.items()}


def test_without_healthy_runs_the_end_and_the_signature_decide(altered: Any, healthy: list[Trace]) -> None:
    """Harm for a time is not known then, so that a run that shows its signature stays as it was injected."""
    rows, traces = altered
    few = [row for row in rows if row["run_id"] not in {t.run_id for t in healthy[1:]}]
    found = {row["run_id"]: row["kind"] for row in label_runs(few, {t.run_id: t for t in traces}.__getitem__)}
    assert (found["better than its twin"], found["nothing"], found["none of two shown"]) == ("not shown",) * 3
    assert (found["worse"], found["lost"], found["shown without harm"]) == ("failing",) * 3


def test_a_table_of_before_is_labelled_as_it_was(folder: Path, labelled: Any) -> None:
    """Without the two columns, harm is on either side and no signature is known."""
    table = pq.read_table(folder / "runs.parquet").drop_columns(["harm", "signatures"])
    pq.write_table(table, folder / "runs.parquet")
    write_manifest(folder, {})
    assert set(load(folder).runs["harm"]) == {"either"}
    assert set(load(folder).runs["signatures"]) == {"{}"}
    assert [row["kind"] for row in relabel(folder)] == [after["kind"] for _, after in labelled.values()]


def test_signatures_are_measured_again_by_who_can(folder: Path) -> None:
    def none_holds(rows: list[dict[str, Any]], trace: Callable[[str], Trace]) -> list[dict[str, Any]]:
        assert trace(rows[0]["run_id"]).run_id == rows[0]["run_id"]
        return [row | {"signatures": '{"high_lr": false}'} if row["cause"] else row for row in rows]

    before = {row["run_id"]: row["kind"] for row in relabel(folder)}
    after = {row["run_id"]: row["kind"] for row in relabel(folder, none_holds)}
    assert {name for name in after if after[name] != before[name]} == {
        name for name in before if before[name] == "latent"
    }
    assert after["unharmed"] == "not shown"
    assert {row["run_id"]: row["kind"] for row in relabel(folder)} == after, "they stay in the table"
