"""Leaks planted in every channel are found; without one nothing is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from trainwreck.evaluation.audits.leak_features import CHANNELS, FIRST, features
from trainwreck.evaluation.audits.leakage import (
    LEAKS,
    UNKNOWN,
    WITHIN,
    _channel,
    audit,
    balanced_accuracy,
    cause_given_base,
)
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.replay.replay import replay_order

STEPS, ONSET, SEEDS = 24, 12, 10

Change = Callable[[dict[str, Any], Trace], None]


@pytest.fixture(scope="module")
def planted(make_trace: Any, make_run: Any, write_data_set: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A failing run beside a healthy one for every seed, and what `change` does to the failing one."""

    def build(change: Change | None = None, *, bases: int = 1, extra: int = 0, other: Change | None = None) -> DataSet:
        runs, traces = [], []
        for base in range(bases):
            for seed in range(SEEDS):
                noise = 100 * base + seed
                names = [("healthy", "h"), *(("failing", f"f{n}") for n in range(1 + extra * (base == 0)))]
                for kind, name in names:
                    trace = make_trace(f"r{name}", seed=noise, steps=STEPS)
                    trace.signals["lr"] = np.full(STEPS, 0.01 * (1 + base), np.float32)
                    facts = {"base": f"base-{base}", "seed": seed, "last_step": STEPS - 1, "kind": kind}
                    run = make_run("", **facts, context=json.dumps({"lr": 0.01 * (1 + base)}))
                    # As the catalogue names its runs: by a hash.
                    run["run_id"] = (
                        "r" + f"{stats.norm.cdf(np.random.default_rng([noise, len(runs)]).normal()):.12f}"[2:]
                    )
                    if kind == "failing":
                        run |= {"scenario": "high_lr", "cause": "high_lr", "onset_step": ONSET}
                        late = np.arange(STEPS) >= ONSET
                        trace.signals["loss"] = np.where(late, 9, trace["loss"]).astype(np.float32)
                        if change is not None:
                            change(run, trace)
                    elif other is not None:
                        other(run, trace)
                    trace.run_id = run["run_id"]
                    run["last_step"] = len(trace) - 1
                    runs.append(run)
                    traces.append(trace)
        order = np.random.default_rng(0).permutation(len(runs))
        folder = tmp_path_factory.mktemp("planted")
        data: DataSet = write_data_set(folder, [runs[i] for i in order], [traces[i] for i in order])
        return data

    return build


def verdicts(data: DataSet, *channels: str) -> dict[str, str]:
    return {one.name: one.verdict for one in audit(data, channels=channels or tuple(CHANNELS)).channels}


def test_without_a_leak_nothing_leaks(planted: Any) -> None:
    found = audit(planted())
    assert {one.name: one.verdict for one in found.channels} == dict.fromkeys(CHANNELS, WITHIN)
    assert not found.leaks
    assert found.advice == ""
    assert found.counts == {"runs": 20, "audited": 20, "calibration": 0, "cured": 0, "latent": 0, "not_shown": 0}


def shift(run: dict[str, Any], trace: Trace) -> None:
    trace.signals["log_z"] = trace["log_z"] + np.float32(1)


def shift_after_row_zero(run: dict[str, Any], trace: Trace) -> None:
    trace.signals["log_z"] = trace["log_z"] + (np.arange(STEPS) > 0).astype(np.float32)


def round_off(run: dict[str, Any], trace: Trace) -> None:
    trace.signals["grad_norm"] = np.round(trace["grad_norm"], 3)


def half_precision(run: dict[str, Any], trace: Trace) -> None:
    trace.signals["head_entropy"] = trace["head_entropy"].astype(np.float16).astype(np.float32)


def lose_a_value(run: dict[str, Any], trace: Trace) -> None:
    trace.signals["log_z"][3] = np.nan


def evaluate_early(run: dict[str, Any], trace: Trace) -> None:
    trace.evaluated[2] = True
    trace.signals["validation_loss"][2] = 3.0


def stop_early(run: dict[str, Any], trace: Trace) -> None:
    trace.signals = {name: values[: STEPS - 1] for name, values in trace.signals.items()}
    trace.evaluated = trace.evaluated[: STEPS - 1]
    trace.steps = trace.steps[: STEPS - 1]


def name_it(run: dict[str, Any], trace: Trace) -> None:
    run["run_id"] += "f"


def declare(run: dict[str, Any], trace: Trace) -> None:
    run["context"] = json.dumps({"lr": 0.02})


@pytest.mark.parametrize(
    ("change", "channel"),
    [
        (shift, "row_zero"),
        (shift_after_row_zero, "first_rows"),
        (round_off, "formats"),
        (half_precision, "formats"),
        (lose_a_value, "missing"),
        (evaluate_early, "missing"),
        (stop_early, "length"),
        (name_it, "run_id"),
        (declare, "context"),
    ],
)
def test_a_planted_leak_is_found(change: Change, channel: str, planted: Any) -> None:
    assert verdicts(planted(change), channel) == {channel: LEAKS}


def test_each_plant_leaves_the_channels_before_it_alone(planted: Any) -> None:
    assert verdicts(planted(shift_after_row_zero), "row_zero") == {"row_zero": WITHIN}
    assert verdicts(planted(half_precision), "missing") == {"missing": WITHIN}


def test_an_end_after_a_loss_that_is_not_finite_is_the_failure(planted: Any) -> None:
    def diverge(run: dict[str, Any], trace: Trace) -> None:
        trace.signals["loss"][ONSET + 2 :] = np.nan
        stop_early(run, trace)

    assert verdicts(planted(diverge), "length") == {"length": WITHIN}


def test_an_order_that_goes_by_role_is_found_where_it_is_shown(planted: Any) -> None:
    data = planted()
    by_role = data.runs.sort_values(["seed", "kind"])
    found = verdicts(DataSet(data.path, {}, by_role), "order", "table_order")
    assert found == {"order": WITHIN, "table_order": LEAKS}  # detectors are shown the runs in another
    hashed = replay_order(data.runs["run_id"])
    kinds = data.runs.loc[hashed, "kind"].tolist()
    swapped = data.runs.copy()
    swapped["kind"] = pd.Series(["failing", "healthy"] * SEEDS, index=hashed)
    swapped.loc[swapped["kind"] == "failing", "onset_step"] = ONSET
    assert kinds != swapped.loc[hashed, "kind"].tolist()
    assert verdicts(DataSet(data.path, {}, swapped), "order") == {"order": LEAKS}


def test_a_file_for_each_role_is_found(planted: Any) -> None:
    data = planted()
    runs = data.runs.copy()
    runs["file"] = np.where(runs["kind"] == "failing", "telemetry/b.parquet", "telemetry/a.parquet")
    moved = DataSet(data.path, {}, runs)
    moved.trace = data.trace  # type: ignore[method-assign]
    assert verdicts(moved, "file") == {"file": LEAKS}


def test_a_base_with_more_failing_runs_leaks_by_its_settings(planted: Any) -> None:
    data = planted(bases=2, extra=3)
    found = audit(data, channels=("row_zero", "context"))
    assert [one.verdict for one in found.channels] == [LEAKS, LEAKS]
    assert found.leaks
    assert "30 are lacking on 1 of 2 bases" in found.advice
    assert [base["lacking"] for base in found.bases] == [30, 0]
    assert found.bases[0]["scenarios"] == ["high_lr"]


def test_what_fails_from_step_zero_shows_it_by_right(planted: Any) -> None:
    def at_once(run: dict[str, Any], trace: Trace) -> None:
        run["onset_step"] = 0
        shift(run, trace)

    [row_zero] = audit(planted(at_once), channels=("row_zero",)).channels
    assert (row_zero.verdict, row_zero.under_fault, row_zero.failing) == (UNKNOWN, SEEDS, 0)
    # Most failing runs of one base begin at once: its healthy runs weigh less, so that its odds stay.
    data = planted(bases=2)
    early = data.runs["base"].eq("base-0") & data.runs["seed"].lt(8) & data.runs["kind"].eq("failing")
    runs = data.runs.copy()
    runs.loc[early, "onset_step"] = 0
    [row_zero] = audit(DataSet(data.path, {}, runs), channels=("row_zero",)).channels
    assert (row_zero.verdict, row_zero.under_fault) == (WITHIN, 8)
    assert row_zero.accuracy == pytest.approx(0.5, abs=0.02)


def test_too_few_runs_are_not_judged(planted: Any) -> None:
    data = planted(shift)
    few = data.runs[data.runs["seed"] < 4]
    assert verdicts(DataSet(data.path, {}, few), "row_zero") == {"row_zero": UNKNOWN}


def test_a_data_set_of_every_kind(data_set: DataSet) -> None:
    """Calibration runs, look-alikes, latent and cured ones beside; its runs are named by what they are."""
    found = audit(data_set, channels=("row_zero", "missing", "formats", "length", "order", "run_id"))
    assert {one.name for one in found.channels if one.verdict == LEAKS} == {"run_id"}
    assert not found.leaks  # no detector is told a name
    assert found.counts == {"runs": 85, "audited": 55, "calibration": 24, "cured": 3, "latent": 3, "not_shown": 0}


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated() -> None:
    random = np.random.default_rng(0)
    runs = pd.DataFrame({"seed": np.repeat(np.arange(12), 4), "kind": ["failing", "healthy"] * 24, "onset_step": ONSET})
    runs["base"] = np.tile(["a", "a", "b", "b"], 12)
    draws = 12
    p = [_channel("run_id", pd.DataFrame(random.standard_normal((48, 10))), runs).p for _ in range(draws)]
    assert stats.binom.sf((np.array(p) < 0.05).sum() - 1, draws, 0.05) > 0.001


def test_balanced_accuracy_by_hand() -> None:
    said, label = np.array([1, 1, 0, 0, 0, 1], bool), np.array([1, 1, 1, 0, 0, 0], bool)
    seed = np.array([0, 1, 2, 0, 1, 2])
    value, error, seeds = balanced_accuracy(said, label, np.ones(6), seed)
    assert (value, seeds) == (pytest.approx(2 / 3), 3)
    # Per seed 1, 1, 0: standard error of their mean.
    assert error == pytest.approx(np.std([1, 1, 0], ddof=1) / np.sqrt(3))
    always = balanced_accuracy(np.ones(6, bool), label, np.array([1, 2, 3, 4, 5, 6.0]), seed)
    assert always[:2] == (0.5, pytest.approx(0, abs=1e-12))


def test_the_cause_given_the_base() -> None:
    rows = [("a", "x", seed) for seed in range(3)] + [("b", cause, seed) for cause in "yyz" for seed in range(3)]
    runs = pd.DataFrame(rows, columns=["base", "cause", "seed"]).assign(kind="failing")
    found = cause_given_base(runs)
    assert found == {"causes": 3, "from_base": pytest.approx(9 / 12), "prior": pytest.approx(6 / 12)}
    assert cause_given_base(runs[runs["seed"] == 0])["from_base"] is None


def test_the_channels_are_what_a_detector_is_handed_first(planted: Any, tmp_path: Path) -> None:
    data = planted()
    found = features(data, data.runs)
    assert set(found) == set(CHANNELS)
    run_id = data.runs.index[0]
    trace = data.trace(run_id)
    assert found["row_zero"].loc[run_id, "loss[0]"] == trace["loss"][0]
    assert found["row_zero"].loc[run_id, "layer_grad_norm[3]"] == trace["layer_grad_norm"][0, 3]
    mean = trace["loss"][:FIRST].astype(np.float64).mean()
    assert found["first_rows"].loc[run_id, "loss[0] mean"] == pytest.approx(mean, rel=1e-12)
    assert found["formats"].loc[run_id, "loss zero bits"] >= 29
    assert found["missing"].loc[run_id, "head_entropy numbers"] == 4
