"""Training on a small data set: what it reads, what it finds, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.detectors.learned.model import write_model
from trainwreck.evaluation.detectors.learned.smoothing import Smoothed
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.learning import training
from trainwreck.evaluation.learning.examples import ALARM, LEFT_OUT, QUIET, Examples, examples
from trainwreck.evaluation.learning.judging import quiet_peaks, recalls, smoothed
from trainwreck.evaluation.replay.profiles import PROFILES

STEPS, ONSET = 60, 30
SEEDS = 6


def runs_of(make_run: Any, make_trace: Any, split: str, seeds: range) -> tuple[list[Any], list[Any]]:
    """A healthy run, a loss that jumps, one that creeps and a spike, on every seed."""
    runs, traces = [], []
    late = np.arange(STEPS) >= ONSET
    for seed in seeds:
        twin = make_trace(f"{split}-healthy-{seed}", seed=seed, steps=STEPS)
        shapes = {
            "corrupt_tokens": np.where(late, 2.5, 1.0),
            "high_lr": np.exp(np.maximum(0, np.arange(STEPS) - ONSET) / 15.0),
            "benign_single_spike": np.where(np.arange(STEPS) == ONSET, 2.5, 1.0),
        }
        facts = {"split": split, "seed": seed, "last_step": STEPS - 1}
        runs.append(make_run(twin.run_id, **facts))
        traces.append(twin)
        for name, shape in shapes.items():
            look_alike = name.startswith("benign")
            visible = dict.fromkeys(PROFILES, ONSET + 3)
            label = {"scenario": name, "kind": "look-alike"} if look_alike else {
                "scenario": name, "cause": name, "kind": "failing", "onset_step": ONSET, "visible_step": ONSET + 3,
                "visible_profiles": str(visible).replace("'", '"'), "outcome": "damaged",
            }  # fmt: skip
            trace = make_trace(f"{split}-{name}-{seed}", seed=seed, steps=STEPS, loss=twin["loss"] * shape)
            runs.append(make_run(trace.run_id, **facts, **label))
            traces.append(trace)
    return runs, traces


@pytest.fixture(scope="module")
def taught(make_run: Any, make_trace: Any, write_data_set: Any, tmp_path_factory: Any) -> DataSet:
    """Four runs of each of six seeds to learn from, and of two others to be tested on."""
    runs, traces = runs_of(make_run, make_trace, "train", range(SEEDS))
    more, others = runs_of(make_run, make_trace, "test", range(20, 22))
    return write_data_set(tmp_path_factory.mktemp("taught"), runs + more, traces + others)


@pytest.fixture(scope="module")
def quick() -> Any:
    """Fewer and smaller trees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "BOOSTING", training.BOOSTING | {"max_iter": 10, "min_samples_leaf": 10})
        for name, count in {"CHOSEN": 30, "SCREENED": 800, "SCREENING": 8, "FITTED": 1500}.items():
            patch.setattr(training, name, count)
        patch.setattr("trainwreck.evaluation.learning.causes.FOREST", {"n_estimators": 4, "random_state": 0})
        yield


@pytest.fixture(scope="module")
def learned(taught: DataSet, quick: Any) -> Any:
    ticks: list[tuple[int, int]] = []
    model = training.learn(taught, lambda done, total, note: ticks.append((done, total)))
    return model, ticks


@pytest.fixture(scope="module")
def found(taught: DataSet) -> Examples:
    return examples(taught, training.train_runs(taught))


def test_what_was_learned_finds_the_failures_of_the_test_split(taught: DataSet, learned: Any) -> None:
    model, _ = learned
    test = examples(taught, taught.runs[taught.runs["split"] == "test"])
    scores = smoothed(test, model.trees.many(test.values.astype(np.float64)))
    recall = recalls(test, scores)
    assert recall["full"]["recall_0.05"] == 1.0
    assert recall["filtered"]["recall_0.05"] >= 0.5
    assert model.about["held_out"]["recall"]["full"]["recall_0.05"] >= 0.9
    assert set(model.head.causes) == {"corrupt_tokens", "high_lr"}
    assert model.about["runs"] == {"failing": 12, "healthy": 6, "look-alike": 6}
    assert model.about["seeds"] == list(range(SEEDS))


def test_progress_ends_where_it_should(learned: Any) -> None:
    _, ticks = learned
    done, totals = zip(*ticks, strict=True)
    assert list(done) == sorted(done)
    assert len(set(totals)) == 1
    assert done[-1] == totals[0]


def test_nothing_but_the_train_split_is_read(taught: DataSet, quick: Any, tmp_path: Path, learned: Any) -> None:
    """Every other run's telemetry is out of reach, and the model is bitwise the same."""

    class Guarded(DataSet):
        def trace(self, run_id: str) -> Any:
            assert run_id.startswith("train-"), run_id
            return super().trace(run_id)

    again = training.learn(Guarded(taught.path, taught.manifest, taught.runs.sample(frac=1.0, random_state=0)))
    for name, model in (("a.npz", learned[0]), ("b.npz", again)):
        write_model(tmp_path / name, model)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_what_can_not_be_learned_from(taught: DataSet, data_set: DataSet) -> None:
    with pytest.raises(InputError, match="no split 'train', here are: calibration, test; allowed: a data set with one"):
        training.learn(data_set)

    def changed(keep: Any) -> DataSet:
        return DataSet(taught.path, taught.manifest, taught.runs[keep(taught.runs)])

    some = taught.runs["kind"].where(taught.runs["seed"] != 1, "not shown")
    kept = training.train_runs(DataSet(taught.path, taught.manifest, taught.runs.assign(kind=some)))
    assert 0 < len(kept) < len(taught.runs)
    assert 1 not in set(kept["seed"])  # of runs that were not harmed nothing is learned
    with pytest.raises(InputError, match="failing runs of 2 seeds in the split 'train' are too few; allowed: 3 seeds"):
        training.train_runs(changed(lambda runs: runs["seed"] < 2))
    with pytest.raises(InputError, match="healthy or look-alike runs of 0 seeds"):
        training.train_runs(changed(lambda runs: runs["kind"] == "failing"))
    with pytest.raises(InputError, match="failing runs of one cause are too few"):
        training.train_runs(changed(lambda runs: runs["cause"] != "high_lr"))


def test_runs_of_a_seed_are_held_out_together(found: Examples) -> None:
    fold = training.folds(found.runs)
    assert set(fold) == set(range(training.FOLDS))
    for _, held in found.runs.assign(fold=fold).groupby("seed"):
        assert held["fold"].nunique() == 1


def test_both_sides_weigh_alike_and_so_does_every_run(found: Examples) -> None:
    weight = training.weights(found)
    assert weight.sum() == pytest.approx(len(found))
    assert (weight[found.target == LEFT_OUT] == 0.0).all()
    for profile in range(len(PROFILES)):
        here = found.profile == profile
        quiet, alarm = (weight[here & (found.target == side)].sum() for side in (QUIET, ALARM))
        assert quiet == pytest.approx(alarm)
        of_runs = np.bincount(found.run[here], weight[here] * (found.target[here] == QUIET))
        healthy = (found.runs["kind"] == "healthy").to_numpy()
        assert np.ptp(of_runs[healthy]) < 1e-9 * of_runs[healthy].mean() + 1e-12


def test_quiet_rows_that_alarm_weigh_more(found: Examples) -> None:
    weight = training.weights(found)
    healthy = (found.target == QUIET) & (found.profile == 0)
    scores = np.where(np.arange(len(found)) == np.flatnonzero(healthy)[3], 5.0, -5.0)
    raised = training.harder(found, weight, scores)
    changed = np.flatnonzero(~np.isclose(raised, weight))
    assert changed.tolist() == [np.flatnonzero(healthy)[3]]
    assert raised[changed[0]] == pytest.approx(weight[changed[0]] * (1.0 + training.HARDER))


def test_rows_are_drawn_by_their_weights() -> None:
    rows = training._drawn(np.array([0.0, 1.0, 3.0, 0.0, 4.0]), 800)
    assert np.bincount(rows, minlength=5).tolist() == pytest.approx([0, 100, 300, 0, 400], abs=1)


def test_the_default_threshold_stops_as_many_as_it_may(found: Examples) -> None:
    scores = np.random.default_rng(0).standard_normal(len(found))
    threshold = training.default_threshold(found, scores)
    stopped = [(quiet_peaks(found, scores, profile) > threshold).mean() for profile in range(len(PROFILES))]
    assert max(stopped) <= training.BUDGET
    lower = np.nextafter(threshold, -np.inf)
    assert max((quiet_peaks(found, scores, profile) > lower).mean() for profile in range(len(PROFILES))) > 0.0


def test_scores_are_smoothed_run_by_run(found: Examples) -> None:
    scores = np.random.default_rng(0).standard_normal(len(found))
    smooth = smoothed(found, scores)
    for run, profile in ((0, 0), (3, 2)):
        here = np.flatnonzero((found.run == run) & (found.profile == profile))
        state = Smoothed()
        assert smooth[here].tolist() == [state.push(scores[i], int(found.step[i])) for i in here]


def test_an_imported_log_is_refused(taught: DataSet) -> None:
    with pytest.raises(InputError, match="imported"):
        training.learn(DataSet(taught.path, {"imported": {}}, taught.runs))


def test_loading_and_learning_leave_the_data_set_alone(taught: DataSet, learned: Any) -> None:
    assert len(load(taught.path)) == len(taught)  # checks every checksum
