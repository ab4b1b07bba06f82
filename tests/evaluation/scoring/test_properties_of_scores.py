"""The properties of the specification for detectors that give scores: whatever the scores, drawn at random."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.evaluation.constants import BUDGETS, COSTS, PREVALENCES
from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.evaluation.leaderboard.ranking import compare
from trainwreck.evaluation.replay.replay import Alarms, rising_edges
from trainwreck.evaluation.scoring.breakdown import exposure
from trainwreck.evaluation.scoring.metrics.significance import Permutation
from trainwreck.evaluation.scoring.operating_points import Point
from trainwreck.evaluation.scoring.reference import Baseline, baseline
from trainwreck.evaluation.scoring.scorecard import Scorecard, measure

T, N = 59, 12
CAUSES = ("high_lr", "no_warmup", "corrupt_tokens")
SEEDS = st.integers(0, 2**32 - 1)
Stored = dict[str, Alarms]


@pytest.fixture(scope="module")
def runs(make_run: Any) -> pd.DataFrame:
    """Without a training split, so that blind policies are tuned on the very runs that are measured."""
    random = np.random.default_rng(3)
    table = []
    for i in range(N):
        onset = int(random.integers(0, 40))
        visible = onset + int(random.integers(0, 8))
        cause = CAUSES[i % 3]
        label = {"onset_step": onset, "visible_step": visible, "seed": i, "family": cause[:2], "last_step": T}
        no_return = int(random.integers(visible + 1, T + 1)) if i % 3 else None
        table.append(make_run(f"f{i}", kind="failing", cause=cause, scenario=cause, no_return_step=no_return, **label))
        table.append(make_run(f"h{i}", seed=i, last_step=T))
        table.append(make_run(f"c{i}", seed=100 + i, split="calibration", last_step=T))
        table.append(make_run(f"d{i}", seed=200 + i, split="calibration", last_step=T))
    table.append(make_run("l", seed=0, kind="look-alike", scenario="benign", last_step=T))
    return pd.DataFrame(table)


@pytest.fixture(scope="module")
def frame(runs: pd.DataFrame) -> Baseline:
    return baseline(runs, resamples=20)


def alarms(run_id: str, scores: np.ndarray, limit: float = 2.2, causes: tuple[str, ...] = CAUSES[:2]) -> Alarms:
    steps, raised = np.arange(len(scores)), scores > limit
    edges = rising_edges(steps, raised)
    first = int(edges[0]) if len(edges) else None
    named = causes if first is not None else ()
    return Alarms(run_id, steps, scores.astype(np.float64), raised, edges, first, named, "ok", 1.0, 10)


def drawn(runs: pd.DataFrame, seed: int) -> Stored:
    """Scores that rise after the onset in some of the failing runs."""
    random = np.random.default_rng(seed)
    stored = {}
    for run in runs.itertuples():
        scores = random.normal(size=T + 1)
        if run.kind == "failing" and random.random() < 0.7:
            scores[int(run.onset_step) + int(random.integers(0, 6)) :] += 3.0 * random.random()
        stored[str(run.run_id)] = alarms(str(run.run_id), scores)
    return stored


def card(runs: pd.DataFrame, frame: Baseline, stored: Mapping[str, Alarms]) -> Scorecard:
    return measure("d", "blind", {}, stored, frame)


def headlines(found: Scorecard) -> list[float]:
    """Every number of which more is better and that needs a threshold."""
    return [
        found.monitor_recall.value,
        *(value for point in found.points.values() for value in at_point(point)),
        *(share.value for share in found.breakdown["family"].values()),
        *(share.value for share in found.breakdown["scenario"].values()),
    ]


def at_point(point: Point) -> list[float]:
    """The same at one operating point; recall first."""
    return [
        point.recall.value,
        point.lead.value,
        -point.delay["from_onset"]["restricted_mean_share"].value,
        -point.delay["from_visible"]["restricted_mean_share"].value,
        *(point.diagnosis[level][k]["macro"].value for level in ("cause", "family") for k in ("1", "3")),
        *(point.diagnosis["cause_within_set"][k]["macro"].value for k in ("1", "3")),
        *(point.skill[cost][prevalence].value for cost in COSTS for prevalence in PREVALENCES),
    ]


@settings(max_examples=20)
@given(seed=SEEDS)
def test_no_score_is_more_than_one(seed: int, runs: pd.DataFrame, frame: Baseline) -> None:
    found = card(runs, frame, drawn(runs, seed))
    assert max([*headlines(found), found.area.value, found.volume.value]) <= 1.0 + 1e-12
    assert found.volume.value <= found.area.value


@settings(max_examples=20)
@given(step=st.integers(0, T))
def test_no_clock_is_worth_more_than_nothing(step: int, runs: pd.DataFrame, frame: Baseline) -> None:
    stored = {run: alarms(run, np.where(np.arange(T + 1) == step, 3.0, 0.0)) for run in runs["run_id"]}
    found = card(runs, frame, stored)
    for point in found.points.values():
        assert max(point.skill[cost][prevalence].value for cost in COSTS for prevalence in PREVALENCES) <= 1e-12
    # All runs tie: one in so many is stopped, of failing runs as of calibration runs. At step 0 there is no quiet row.
    for budget in BUDGETS if step else ():
        expected = budget * found.recall["default"].value
        assert found.recall[str(budget)].value == pytest.approx(expected, abs=1e-12)
        assert found.recall[str(budget)].stopped.value == pytest.approx(budget, abs=1e-12)


@settings(max_examples=20)
@given(seed=SEEDS, other=SEEDS)
def test_a_monotone_transform_leaves_what_needs_no_default(
    seed: int, other: int, runs: pd.DataFrame, frame: Baseline
) -> None:
    stored = drawn(runs, seed)
    values = np.unique(np.concatenate([one.scores for one in stored.values()]))
    mapped = np.sort(np.random.default_rng(other).standard_cauchy(len(values)) * 1e3)
    mapped += np.arange(len(mapped)) * 1e-3  # equal draws stay apart
    changed = {run: replace(one, scores=mapped[np.searchsorted(values, one.scores)]) for run, one in stored.items()}
    before, after = card(runs, frame, stored).to_dict(), card(runs, frame, changed).to_dict()
    for facts in (before, after):
        for point in facts["points"].values():
            point["recall"]["threshold"] = None
    for name in ("curves", "points", "free", "breakdown"):
        assert before[name] == after[name], name


@settings(max_examples=20)
@given(value=st.floats(-1e300, 1e300))
def test_a_constant_score_is_chance(value: float, runs: pd.DataFrame, frame: Baseline) -> None:
    stored = {run: alarms(run, np.full(T + 1, value), np.inf) for run in runs["run_id"]}
    found = card(runs, frame, stored)
    assert [recall.value for recall in found.recall.values()] == [0.0, 0.0, 0.0]
    stopped, recall = found.curve()
    assert recall[stopped < 1.0].max(initial=0.0) == 0.0


@settings(max_examples=6)
@given(seed=SEEDS, order=SEEDS)
def test_order_and_names_of_runs_change_nothing(seed: int, order: int, runs: pd.DataFrame) -> None:
    shuffled = runs.sample(frac=1.0, random_state=order).reset_index(drop=True)
    names = {old: f"x{i}" for i, old in enumerate(shuffled["run_id"])}
    renamed = shuffled.assign(run_id=shuffled["run_id"].map(names))
    stored = drawn(runs, seed)
    one = card(runs, baseline(runs, resamples=20), stored).to_dict()
    other = card(
        renamed,
        baseline(renamed, resamples=20),
        {names[run]: replace(stored[run], run_id=names[run]) for run in names},
    ).to_dict()
    for facts in (one, other):
        facts.pop("alarms")
    assert rounded(one) == rounded(other)


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return round(value, 10) if isinstance(value, float) else value


@settings(max_examples=25)
@given(seed=SEEDS, data=st.data())
def test_a_higher_score_where_all_is_well_never_improves_a_headline(
    seed: int, data: st.DataObject, runs: pd.DataFrame, frame: Baseline
) -> None:
    """One more false alarm, at the detector's own threshold and at one that it leaves where it was.

    On a calibration run it may raise the frozen threshold. Then an alarm before an onset may go, and its run be found
    in time after all: at a budget, in-time recall need not fall with the threshold.
    """
    stored = drawn(runs, seed)
    name = data.draw(st.sampled_from(sorted(stored)))
    onset = runs.set_index("run_id").loc[name, "onset_step"]
    last_healthy = T if pd.isna(onset) else int(onset) - 1
    if last_healthy < 0:
        return
    scores = stored[name].scores.copy()
    scores[data.draw(st.integers(0, last_healthy))] += data.draw(st.sampled_from([0.5, 2.0, 9.0]))
    before, after = card(runs, frame, stored), card(runs, frame, stored | {name: alarms(name, scores)})
    calibrates = runs.set_index("run_id").loc[name, "split"] == "calibration"
    for key, point in before.points.items():
        old, new = point.recall.threshold, after.points[key].recall.threshold
        kept = old is None or new is None or [*old.levels, *old.chances] == [*new.levels, *new.chances]
        assert kept or calibrates  # no measured run moves a threshold
        if kept:
            values = zip(at_point(after.points[key]), at_point(point), strict=True)
            assert all(value <= was + 1e-12 for value, was in values)


@settings(max_examples=25)
@given(seed=SEEDS, data=st.data())
def test_the_same_alarm_later_never_raises_a_score(
    seed: int, data: st.DataObject, runs: pd.DataFrame, frame: Baseline
) -> None:
    run = runs.set_index("run_id").loc[f"f{data.draw(st.integers(0, N - 1))}"]
    at = data.draw(st.integers(int(run["visible_step"]), T))
    later = data.draw(st.integers(at, T))
    causes = data.draw(st.permutations(CAUSES))

    def peaked(step: int) -> Alarms:
        return alarms(str(run.name), np.where(np.arange(T + 1) == step, 9.0, 0.0), causes=tuple(causes[:2]))

    stored = drawn(runs, seed)
    before, after = (headlines(card(runs, frame, stored | {str(run.name): peaked(step)})) for step in (at, later))
    assert all(new <= old + 1e-12 for new, old in zip(after, before, strict=True))


@settings(max_examples=10)
@given(seed=SEEDS, data=st.data())
def test_to_know_before_it_shows_is_worth_no_more_than_when_it_does(
    seed: int, data: st.DataObject, runs: pd.DataFrame, frame: Baseline
) -> None:
    stored, early = drawn(runs, seed), {}
    for run in runs[runs["kind"] == "failing"].itertuples():
        visible, onset = int(run.visible_step), int(run.onset_step)
        for stream, at in ((stored, visible), (early, data.draw(st.integers(onset, visible)))):
            stream[str(run.run_id)] = alarms(str(run.run_id), np.where(np.arange(T + 1) == at, 9.0, 0.0))
    cards = [card(runs, frame, found) for found in (stored, stored | early)]
    first, second = (found.points["default"] for found in cards)
    assert first.skill == second.skill
    assert (first.lead, first.recall) == (second.lead, second.recall)
    assert first.delay["from_visible"]["restricted_mean_steps"] == second.delay["from_visible"]["restricted_mean_steps"]


@settings(max_examples=20)
@given(seed=SEEDS, data=st.data())
def test_a_failure_is_worth_no_more_than_silence_and_is_told(
    seed: int, data: st.DataObject, runs: pd.DataFrame, frame: Baseline
) -> None:
    stored = drawn(runs, seed)
    name = data.draw(st.sampled_from([f"f{i}" for i in range(N)]) | st.sampled_from(sorted(stored)))
    judged = data.draw(st.integers(0, T - 4))  # an alarm in the last steps costs more than it saves
    cut = stored[name].scores[:judged].copy()
    if name.startswith("f"):  # an alarm under the fault, which the failure takes back
        cut[int(runs.set_index("run_id").loc[name, "onset_step"]) + 1 :] += 6.0
    whole = alarms(name, np.concatenate([cut, np.full(T + 1 - judged, -9.0)]))
    crashed = replace(alarms(name, cut), status="crashed: why")
    silent, failed = card(runs, frame, stored | {name: whole}), card(runs, frame, stored | {name: crashed})
    # On a calibration run it raises the thresholds, by which a false alarm may go: only the default stays.
    calibrates = runs.set_index("run_id").loc[name, "split"] == "calibration"
    scores = [at_point(one.points["default"]) if calibrates else headlines(one) for one in (failed, silent)]
    assert max(new - old for new, old in zip(*scores, strict=True)) <= 1e-12
    for budget in map(str, BUDGETS):
        assert failed.recall[budget].stopped_mixed.value <= silent.recall[budget].stopped_mixed.value + 1e-12
    assert (silent.counts["crashed"], failed.counts["crashed"]) == (0, 1)
    assert failed.cost["crashes"] == ["crashed: why"]
    assert [one.status for one in failed.alarms if one.status != "ok"] == ["crashed: why"]
    assert exposure(failed.outcomes).sum() <= exposure(silent.outcomes).sum()
    for point in failed.recall:
        assert not failed.detected(point)[failed.outcomes.run_id == name].any(), "a miss, whatever it said before"


@settings(max_examples=10)
@given(seed=SEEDS)
def test_a_detector_does_not_differ_from_itself(seed: int, runs: pd.DataFrame, frame: Baseline) -> None:
    found = card(runs, frame, drawn(runs, seed))
    assert set(compare(found, found).values()) == {1.0}


@given(seed=SEEDS, size=st.integers(0, 40))
def test_a_comparison_has_no_side(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    difference = random.normal(size=size)
    test = Permutation(random.integers(0, 9, size), random.integers(0, 4, size), resamples=200)
    assert test.p_value(difference) == test.p_value(-difference)
    assert 0.0 < test.p_value(difference) <= 1.0


@settings(max_examples=15)
@given(seed=SEEDS, at=st.integers(0, T))
def test_an_alarm_before_the_onset_is_worth_less_than_none(
    seed: int, at: int, runs: pd.DataFrame, frame: Baseline
) -> None:
    stored = drawn(runs, seed)
    for name in ("f1", "f4", "f7"):
        if at >= runs.set_index("run_id").loc[name, "onset_step"]:
            continue
        early = np.where(np.arange(T + 1) == at, 9.0, stored[name].scores)
        after = card(runs, frame, stored | {name: alarms(name, early)})
        none = card(runs, frame, stored | {name: alarms(name, np.zeros(T + 1))})
        assert (
            after.points["default"].skill["rollback"][0.1].value < none.points["default"].skill["rollback"][0.1].value
        )
        assert after.recall["default"].value <= none.recall["default"].value
        assert not after.detected("default")[after.outcomes.run_id == name].any()


def test_the_right_cause_too_soon_is_no_diagnosis(runs: pd.DataFrame, frame: Baseline) -> None:
    stored = {
        str(run.run_id): alarms(str(run.run_id), np.where(np.arange(T + 1) == 0, 9.0, 0.0), causes=(str(run.cause),))
        for run in runs.itertuples()
    }
    failing = runs[runs["kind"] == "failing"]
    expected = (failing["onset_step"] == 0).groupby(failing["cause"]).mean().mean()
    found = card(runs, frame, stored).points["default"].diagnosis
    assert expected < 0.5
    assert [found[level]["1"]["macro"].value for level in ("cause", "cause_within_set")] == [expected, expected]


def test_a_rule_that_is_randomised_at_every_threshold_has_an_interval(runs: pd.DataFrame, frame: Baseline) -> None:
    """Every run peaks alike, so that each is stopped with chance 0.05. No resample changes it, and 12 seeds are few."""
    rising = np.minimum(np.arange(T + 1), 9.0)
    found = card(runs, frame, {run: alarms(run, rising, limit=10.0) for run in runs["run_id"]}).points["0.05"].recall
    differs = 1 - 0.025 ** (1 / 12)
    low = 0.05 * (1 - differs)
    assert found.stopped[:3] == pytest.approx((0.05, low, low + differs), abs=1e-12)
    assert found.stopped.events == pytest.approx(0.6, abs=1e-12)


def test_recall_of_what_is_visible_has_an_interval_where_it_is_none_or_all(runs: pd.DataFrame, frame: Baseline) -> None:
    silent = {run: alarms(run, np.zeros(T + 1)) for run in runs["run_id"]}
    low, high = binomial_interval(0, 12)
    assert card(runs, frame, silent).points["default"].recall.of_visible == (0.0, low, high)
    at_v = {
        str(run.run_id): alarms(str(run.run_id), np.where(np.arange(T + 1) == int(run.visible_step), 9.0, 0.0))
        for run in runs[runs["kind"] == "failing"].itertuples()
    }
    assert card(runs, frame, silent | at_v).points["default"].recall.of_visible == (1.0, *binomial_interval(12, 12))
