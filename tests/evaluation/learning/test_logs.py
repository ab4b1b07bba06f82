"""The trees for logs: features that no unit changes, what they are trained on, and which rows they judge."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.learned.features import SCALARS
from trainwreck.evaluation.detectors.learned.learned import TELEMETRY, Learned
from trainwreck.evaluation.detectors.learned.log_features import NAMES, LogFeatures
from trainwreck.evaluation.detectors.learned.model import LogTrees, read_model, shipped, write_model
from trainwreck.evaluation.detectors.learned.smoothing import SmoothedRows
from trainwreck.evaluation.detectors.learned.trees import Trees
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.learning import logs, training
from trainwreck.evaluation.learning.examples import LEFT_OUT
from trainwreck.evaluation.learning.judging import quiet_peaks, smoothed
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.rows import rows

ROWS, SETUPS, STEPS, ONSET = 400, 6, 120, 60


def curve(seed: int) -> list[dict[str, Any]]:
    """A run that falls, spikes, and rises for good; with evaluations, gradient norm and a schedule."""
    draw, at = np.random.default_rng(seed), np.arange(ROWS)
    loss = 2.0 + 3.0 * np.exp(-at / 60.0) + 0.05 * draw.standard_normal(ROWS)
    loss[150:156] += 2.0
    loss[300:] += np.linspace(0.0, 2.0, ROWS - 300)
    norm = np.exp(0.3 * draw.standard_normal(ROWS)) * np.where(at >= 300, 5.0, 1.0)
    return [
        {"step": int(i), "loss": float(loss[i]), "grad_norm": float(norm[i]), "lr": 1e-3 * min(1.0, (i + 1) / 40),
         "validation_loss": float(loss[i]) + 0.1 if i % 20 == 0 else None}
        for i in at
    ]  # fmt: skip


def seen(run: list[dict[str, Any]]) -> np.ndarray:
    features = LogFeatures()
    return np.array([features.see(row) for row in run])


def changed(run: list[dict[str, Any]], **how: Any) -> list[dict[str, Any]]:
    return [{k: how[k](v) if k in how and v is not None else v for k, v in row.items()} for row in run]


@pytest.mark.parametrize("seed", range(3))
def test_no_unit_changes_a_feature(seed: int) -> None:
    run = curve(seed)
    other = changed(
        run, loss=lambda x: 7.5 * x + 11.0, validation_loss=lambda x: 3.0 * x - 1.0, grad_norm=lambda x: 40.0 * x,
        lr=lambda x: x / 17.0, step=lambda x: 250 * x + 3,
    )  # fmt: skip
    np.testing.assert_allclose(seen(other), seen(run), rtol=1e-6, atol=1e-6)


def test_an_interval_changes_little() -> None:
    """Of a run with every row and one with every fourth, shares of the fall and of the run agree at the end."""
    run = curve(0)
    last, thinned = seen(run)[-1], seen(run[3::4])[-1]
    for name in ("off its least", "given back", "share without progress", "share of the run off its least"):
        at = NAMES.index(f"loss: {name}")
        assert thinned[at] == pytest.approx(last[at], abs=0.08)


def test_features_say_what_they_should() -> None:
    table = seen(curve(1))
    assert table.shape == (ROWS, len(NAMES))
    of = {name: table[:, i] for i, name in enumerate(NAMES)}
    assert of["loss: given back"][290] < 0.01 < of["loss: given back"][-1]
    assert of["loss: off its least"][-1] > 0.4 > of["loss: off its least"][290]
    assert of["lr: under its largest"][-1] == 0.0
    assert of["lr: share of the run unchanged"][-1] == pytest.approx(0.9, abs=0.01)
    assert of["grad_norm: over its least"][-1] > 1.0
    assert of["rows"][-1] == of["rows"][200] > of["rows"][50]
    assert np.isnan(table[0]).any()
    assert np.isfinite(table[-1]).all()


def test_broken_values_leave_the_rest_alone() -> None:
    run = curve(2)
    broken = [*run[:200], {"step": 200, "loss": np.nan, "grad_norm": np.inf, "lr": None, "validation_loss": None}]
    before, after = seen(run[:200])[-1], seen(broken)[-1]
    norm = NAMES.index("grad_norm: not finite lately")
    assert after[norm] > before[norm] == 0.0
    same = [i for i, name in enumerate(NAMES) if name != "rows" and i != norm]
    np.testing.assert_array_equal(after[same], before[same])


@pytest.fixture(scope="module")
def taught(make_run: Any, make_trace: Any, write_data_set: Any, tmp_path_factory: Any) -> DataSet:
    """On each of six setups a healthy run, a loss that jumps for good, and a spike that comes back, on two seeds."""
    runs, traces = [], []
    late = np.arange(STEPS) >= ONSET
    for setup in range(SETUPS):
        for seed in (setup, setup + 10):
            twin = make_trace(f"healthy-{seed}", seed=seed, steps=STEPS)
            facts = {"split": "train", "seed": seed, "base": f"b{setup}", "last_step": STEPS - 1}
            runs.append(make_run(twin.run_id, **facts))
            traces.append(twin)
            for cause, shape in (
                ("high_lr", np.where(late, 1.6, 1.0)),
                ("corrupt_tokens", np.where(late, 2.0, 1.0)),
                ("benign_single_spike", np.where(np.arange(STEPS) == ONSET, 2.5, 1.0)),
            ):
                label: dict[str, Any] = {"scenario": cause, "kind": "look-alike"}
                if not cause.startswith("benign"):
                    label = {
                        "scenario": cause, "cause": cause, "kind": "failing", "onset_step": ONSET,
                        "visible_step": ONSET + 3, "visible_profiles": '{"common": 63, "minimal": 70}',
                        "visible_steps": '{"loss": 63}', "outcome": "damaged",
                    }  # fmt: skip
                trace = make_trace(f"{cause}-{seed}", seed=seed, steps=STEPS, loss=twin["loss"] * shape)
                runs.append(make_run(trace.run_id, **facts, **label))
                traces.append(trace)
    return write_data_set(tmp_path_factory.mktemp("taught"), runs, traces)


@pytest.fixture(scope="module")
def quick() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "BOOSTING", logs.BOOSTING | {"max_iter": 12, "min_samples_leaf": 10})
        patch.setattr(training, "FITTED", 4000)
        patch.setattr(logs, "MODELS", 2)
        yield


@pytest.fixture(scope="module")
def learned(taught: DataSet, quick: Any) -> tuple[LogTrees, list[tuple[int, int]]]:
    ticks: list[tuple[int, int]] = []
    return logs.learn_logs([taught], lambda done, total, note: ticks.append((done, total))), ticks


def test_what_was_learned_finds_failures_of_setups_held_out(learned: Any) -> None:
    found, ticks = learned
    assert found.about["held_out"]["common"]["recall_0.05"] >= 0.9
    assert found.about["setups"] == SETUPS
    assert found.about["data_sets"][0]["runs"] == {"failing": 24, "healthy": 12, "look-alike": 12}
    done, totals = zip(*ticks, strict=True)
    assert list(done) == sorted(done)
    assert done[-1] == totals[0] == totals[-1]


def test_the_same_data_gives_the_same_trees(taught: DataSet, quick: Any, learned: Any, tmp_path: Path) -> None:
    model = read_model(shipped())
    for name, found in (("a.npz", learned[0]), ("b.npz", logs.learn_logs([taught]))):
        write_model(tmp_path / name, replace(model, logs=found))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = read_model(tmp_path / "a.npz").logs
    assert again is not None
    assert (again.threshold, again.about) == (learned[0].threshold, learned[0].about)
    np.testing.assert_array_equal(again.trees.value, learned[0].trees.value)


def test_setups_are_held_out_whole_and_seeds_where_there_are_few(taught: DataSet) -> None:
    runs = taught.runs
    fold = logs.setup_folds(runs)
    assert set(fold) == set(range(logs.FOLDS))
    assert runs.assign(fold=fold).groupby("base")["fold"].nunique().eq(1).all()
    few = runs.assign(base="b0")
    assert few.assign(fold=logs.setup_folds(few)).groupby("seed")["fold"].nunique().eq(1).all()


def test_rows_are_those_of_the_detector_and_a_nan_is_none_of_them(taught: DataSet, make_trace: Any) -> None:
    runs = taught.runs.loc[["healthy-0", "high_lr-1"]]
    found, ended = logs.log_examples([(taught, runs)])
    assert not ended.any()
    place = [name for name, _, _ in logs.SHOWN].index("logged 2")
    for i, run_id in enumerate(runs.index):
        wanted = seen(list(observe(rows(taught.trace(run_id)), "logged", run_id=f"{run_id}/2")))
        here = (found.run == i) & (found.profile == place)
        np.testing.assert_array_equal(found.values[here], wanted.astype(np.float32))
    run = taught.runs.loc[["high_lr-1"]]

    class Ending(DataSet):
        def trace(self, run_id: str) -> Any:
            whole = super().trace(run_id)
            return make_trace(run_id, steps=STEPS, loss=np.where(np.arange(STEPS) < 100, whole["loss"], np.nan))

    found, ended = logs.log_examples([(Ending(taught.path, taught.manifest, taught.runs), run)])
    assert ended.any()
    assert (found.target[ended] == LEFT_OUT).all()


def test_healthy_runs_whose_gradients_overflow_are_left_out(taught: DataSet) -> None:
    scaled = '{"precision": {"dynamic": true}}'
    runs = taught.runs.assign(context=np.where(taught.runs["seed"] == 3, scaled, "{}"))
    used = logs._used(training.train_runs(DataSet(taught.path, taught.manifest, runs)))
    assert set(used.loc[used["seed"] == 3, "kind"]) == {"failing"}
    assert len(used) == len(runs) - 2


def test_an_imported_log_is_refused(taught: DataSet) -> None:
    with pytest.raises(InputError, match="imported"):
        logs.learn_logs([taught, DataSet(taught.path, {"imported": {}}, taught.runs)])


def test_the_threshold_stops_as_many_held_out_runs_as_it_may(taught: DataSet, quick: Any) -> None:
    found, ended = logs.log_examples([(taught, taught.runs)])
    _, threshold, smooth = logs.fit_logs(found, ended)
    stopped = [(quiet_peaks(found, smooth, profile) > threshold).mean() for profile in range(len(logs.SHOWN))]
    assert max(stopped) <= training.BUDGET
    np.testing.assert_array_equal(smoothed(found, np.ones(len(found)), SmoothedRows), 1.0)


@pytest.mark.parametrize(
    ("profile", "is_log"),
    [("full", False), ("standard", False), ("filtered", False), ("common", True), ("minimal", True)],
)
def test_they_judge_rows_with_few_signals_alone(profile: str, is_log: bool, make_trace: Any, monkeypatch: Any) -> None:
    leaf = np.zeros(1, dtype=int)
    always = Trees(leaf, leaf, np.zeros(1), leaf, leaf, np.ones(1, bool), np.array([9.0]), 0.0, 1)
    model = replace(read_model(shipped()), logs=LogTrees(always, 4.0, {}))
    monkeypatch.setattr(Learned, "model", model)
    trace = make_trace("r", steps=40)
    wanted = [9.0 - 4.0 + model.threshold] * 40
    scores = replay(Learned, trace, profile).scores.tolist()
    assert (scores == pytest.approx(wanted[: len(scores)])) is is_log
    monkeypatch.setattr(Learned, "model", replace(model, logs=None))
    assert (replay(Learned, trace, profile).scores.tolist() == scores) is not is_log


def test_the_first_row_of_the_lab_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = np.zeros(1, dtype=int)
    always = Trees(leaf, leaf, np.zeros(1), leaf, leaf, np.ones(1, bool), np.array([9.0]), 0.0, 1)
    monkeypatch.setattr(Learned, "model", replace(read_model(shipped()), logs=LogTrees(always, 4.0, {})))
    detector = Learned()
    detector.reset(None)
    few = dict.fromkeys(SCALARS[: TELEMETRY - 1], 1.0)
    assert detector.update({"step": 0, **few}).alarm
    assert not detector.update({"step": 1, **dict.fromkeys(SCALARS, 1.0)}).alarm
    assert not detector.is_log
