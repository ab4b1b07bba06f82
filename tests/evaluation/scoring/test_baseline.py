"""What every detector is measured against: the measured runs, the resamples, the tuned blind policies."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.constants import COSTS, PREVALENCES
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.scoring.metrics.skill import CHANCES, POLICIES, Policy, policy_utility
from trainwreck.evaluation.scoring.reference import Baseline, baseline, skill_runs
from trainwreck.evaluation.scoring.run_labels import RunLabels

FAULT = {"kind": "failing", "cause": "high_lr", "scenario": "high_lr", "family": "optimisation"}
EACH = [(cost, prevalence) for cost in COSTS for prevalence in PREVALENCES]


def runs_table(make_run: Any, *, train: bool = False, healthy: bool = True) -> pd.DataFrame:
    """Measured: 12 failing and 12 healthy runs, a look-alike, one never visible. Calibration: 5; train: 6 and 6."""
    rows = [make_run(f"c{i}", seed=500 + i, split="calibration") for i in range(5)]
    for split, count in (("test", 12), ("train", 6 if train else 0)):
        for i in range(count):
            seed, onset = i + 100 * (split == "train"), 10 + 5 * i
            cause = {"cause": "no_warmup"} if split == "test" and i % 3 == 0 else {}
            facts = FAULT | cause | {"onset_step": onset, "visible_step": onset + 4, "seed": seed, "split": split}
            rows.append(make_run(f"{split}-f{i}", **facts))
            if healthy or split == "train":
                rows.append(make_run(f"{split}-h{i}", seed=seed, split=split))
    rows.append(make_run("unseen", **FAULT, onset_step=30, seed=40))
    if healthy:
        rows.append(make_run("spike", kind="look-alike", scenario="benign_single_spike", seed=41))
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def made(make_run: Any) -> Baseline:
    return baseline(runs_table(make_run), resamples=400)


def test_what_is_measured_is_what_nothing_was_tuned_on(make_run: Any) -> None:
    table = runs_table(make_run, train=True)
    found = baseline(table, resamples=10)
    np.testing.assert_array_equal(found.measured, (table["split"] == "test").to_numpy())
    assert found.labels.run_id.tolist() == table["run_id"][found.measured].tolist()
    assert type(found.labels) is RunLabels, "no alarm has a part in it"


def test_blind_policies_are_tuned_where_there_is_something_to_tune_on(make_run: Any, made: Baseline) -> None:
    trained = baseline(runs_table(make_run, train=True), resamples=10)
    assert not any("tuned" in note for note in trained.notes)
    assert "tuned on the measured runs" in made.notes[0]
    clock = next(p for p in trained.blind["kill", 0.5].policies if p.name == "clock")
    onsets = {10 + 5 * i for i in range(6)}
    assert clock.value in onsets | {0.0, 120.0}, "a step of the training runs"


@pytest.mark.parametrize(("cost", "prevalence"), EACH)
def test_the_blind_utility_is_that_of_its_best_policy(cost: str, prevalence: float, made: Baseline) -> None:
    blind, runs = made.blind[cost, prevalence], skill_runs(made.labels)
    assert [policy.name for policy in blind.policies] == list(POLICIES)
    each = [policy_utility(policy, runs, cost, prevalence) for policy in blind.policies]
    assert blind.value == pytest.approx(max(each), rel=1e-12)
    assert blind.value >= 0, "never costs nothing"
    for step in range(0, 120, 7):
        assert policy_utility(Policy("clock", step), runs, cost, prevalence) <= blind.value + 1e-9
    for chance in CHANCES:
        assert policy_utility(Policy("random", chance), runs, cost, prevalence) <= blind.value + 1e-9


@pytest.mark.parametrize(("cost", "prevalence"), EACH)
def test_on_each_resample_the_blind_is_at_its_best_too(cost: str, prevalence: float, made: Baseline) -> None:
    blind = made.blind[cost, prevalence]
    assert blind.samples.shape == (3 * 400,)
    samples = blind.samples[np.isfinite(blind.samples)]  # others have no failing run, or no other
    assert len(samples) > 600
    assert (samples >= 0).all()
    # The maximum of means over resamples is at least the mean of the maximising policy's.
    assert samples.mean() >= blind.value - 4 * samples.std() / np.sqrt(len(samples))


def test_utility_samples_are_the_utility_of_each_resample(made: Baseline) -> None:
    labels, random = made.labels, np.random.default_rng(0)
    gain = np.where(labels.failing, random.normal(size=len(labels)), 0.0)
    loss = np.where(labels.negative, random.random(len(labels)), 0.0)
    found = made.utility_samples(gain[:, None], loss[:, None], 0.1)[:, 0]
    for drawn, value in zip(made.bootstrap.draws(), found, strict=True):
        if not (drawn[labels.failing].any() and drawn[labels.negative].any()):
            assert np.isnan(value)
            continue
        mean_gain = np.average(gain[labels.failing], weights=drawn[labels.failing])
        mean_loss = np.average(loss[labels.negative], weights=drawn[labels.negative])
        assert value == pytest.approx(0.1 * mean_gain - 0.9 * mean_loss, rel=1e-9, abs=1e-12)
    pair = made.utility_samples(np.stack([gain, 2 * gain], 1), np.stack([loss, 2 * loss], 1), 0.1)
    np.testing.assert_allclose(pair, np.stack([found, 2 * found], 1), rtol=1e-12)


def test_a_failing_run_that_is_never_visible_is_no_positive(made: Baseline) -> None:
    runs = skill_runs(made.labels)
    assert len(runs.onset) == 12
    assert len(runs.healthy_last) == 13, "twelve healthy runs and the look-alike"
    assert made.labels.never_visible.sum() == 1


def test_causes_that_no_training_run_had_are_unseen(make_run: Any, made: Baseline) -> None:
    assert baseline(runs_table(make_run, train=True), resamples=10).unseen == {"no_warmup"}
    assert made.unseen == frozenset(), "nothing was trained on, so nothing is new"
    assert made.family_of["high_lr"] == "optimisation"


def test_without_healthy_runs_the_blind_is_undefined(make_run: Any) -> None:
    found = baseline(runs_table(make_run, healthy=False), resamples=10)
    for blind in found.blind.values():
        assert np.isnan(blind.value)
        assert np.isnan(blind.samples).all()


def test_the_resamples_are_the_same_for_everyone(make_run: Any, made: Baseline) -> None:
    again = baseline(runs_table(make_run), resamples=400)
    np.testing.assert_array_equal(again.bootstrap.draws(), made.bootstrap.draws())
    np.testing.assert_array_equal(again.calibration_draws, made.calibration_draws)


def mixed(make_run: Any, calibration: dict[str, int], looks: dict[str, int]) -> pd.DataFrame:
    """Measured: 30 healthy runs of base a and 10 of b, 4 look-alikes x and 4 y. Calibration: as many as given."""
    rows = [make_run(f"h{i}", base="a" if i < 30 else "b", seed=i) for i in range(40)]
    rows += [make_run(f"l{i}", kind="look-alike", scenario="x" if i < 4 else "y", seed=i) for i in range(8)]
    for base, count in calibration.items():
        rows += [make_run(f"c{base}{i}", base=base, seed=900 + i, split="calibration") for i in range(count)]
    for name, count in looks.items():
        facts = {"kind": "look-alike", "scenario": name, "split": "calibration"}
        rows += [make_run(f"k{name}{i}", seed=900 + i, **facts) for i in range(count)]
    return pd.DataFrame(rows)


def test_calibration_runs_stand_for_the_measured_population(make_run: Any) -> None:
    found = baseline(mixed(make_run, {"a": 5, "b": 20, "c": 7}, {"x": 2}), resamples=10)
    weights = found.calibration_weights
    # Nine tenths are healthy runs, three in four of them of base a; none of base c is measured.
    by_base = [weights[:5].sum(), weights[5:25].sum(), weights[25:32].sum(), weights[32:].sum()]
    assert by_base == pytest.approx([0.9 * 0.75, 0.9 * 0.25, 0.0, 0.1], abs=1e-12)
    assert len(set(weights[:5])) == len(set(weights[5:25])) == 1
    assert "50% of the measured look-alike runs are of scenarios without a calibration run" in " ".join(found.notes)
    assert not any("healthy runs are of bases" in note for note in found.notes)
    few = 1 / (weights**2).sum()
    assert any(
        f"a budget of 5% needs 60 calibration runs; here are {few:.0f} in effect, of 34" in n for n in found.notes
    )


def test_a_base_without_calibration_runs_is_told(make_run: Any) -> None:
    found = baseline(mixed(make_run, {"a": 5}, {}), resamples=10)
    assert found.calibration_weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert any(note.startswith("25% of the measured healthy runs are of bases without") for note in found.notes)
    other = baseline(mixed(make_run, {"z": 5}, {}), resamples=10)
    assert other.calibration_weights.tolist() == pytest.approx([0.2] * 5, abs=1e-12)
    assert any(note.startswith("100% of the measured healthy runs") for note in other.notes)


def test_labels_are_of_the_profile(make_run: Any) -> None:
    table = runs_table(make_run)
    table["visible_profiles"] = ['{"full": 14, "minimal": 20}' if i == 5 else "{}" for i in range(len(table))]
    labels = [baseline(table, profile, resamples=10).labels.visible[0] for profile in ("full", "minimal", "standard")]
    assert labels == [14.0, 20.0, np.inf]
    hidden = skill_runs(baseline(table, "standard", resamples=10).labels)
    assert hidden.visible[0] == pytest.approx(0.99 * hidden.last[0])


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"onset_step": None}, "onset_step is empty"),
        ({"onset_step": 50, "visible_step": 40}, "visible_step before onset_step"),
        ({"onset_step": 50, "no_return_step": 40}, "no_return_step before onset_step"),
        ({"onset_step": 50, "visible_step": 400}, "visible_step after last_step"),
        ({"onset_step": 50, "last_step": None, "planned_steps": 9}, "last_step is empty"),
    ],
)
def test_labels_that_contradict_themselves_are_refused(facts: dict[str, Any], complaint: str, make_run: Any) -> None:
    table = pd.DataFrame([*runs_table(make_run).to_dict("records"), make_run("wrong", **FAULT | facts)])
    with pytest.raises(InputError, match=f"runs: wrong: {complaint}"):
        baseline(table, resamples=10)
