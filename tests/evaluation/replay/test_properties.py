"""What no detector may do to a score, whatever it says: the properties of the specification."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.evaluation.constants import BUDGETS, COSTS, PREVALENCES, REFRACTORY
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Detector, Row
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.detectors.sanity.blind import Clock, Random, StepFraction
from trainwreck.evaluation.leaderboard.ranking import compare
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.replay.alarms import labelled_alarms
from trainwreck.evaluation.replay.oracles import oracle_alarms
from trainwreck.evaluation.replay.replay import Alarms, replay
from trainwreck.evaluation.scoring.metrics.skill import policy_gains, policy_losses, skill, utility
from trainwreck.evaluation.scoring.reference import Baseline, baseline, skill_runs
from trainwreck.evaluation.scoring.scorecard import Scorecard, measure

T, N = 119, 40
BUDGET = str(BUDGETS[-1])


@pytest.fixture(scope="module")
def runs(make_run: Any) -> pd.DataFrame:
    """Failing runs with steps all over, healthy ones, look-alikes; half of each in the training split."""
    random = np.random.default_rng(7)
    table = []
    for i in range(N):
        onset = int(random.integers(0, 90)) if i % 4 else 0
        visible = int(random.integers(onset, 100))
        label = {"kind": "failing", "onset_step": onset, "visible_step": visible}
        label["no_return_step"] = int(random.integers(visible + 1, T + 1)) if i % 3 else None
        cause = ("high_lr", "no_warmup", "corrupt_tokens")[i % 3]
        split = "train" if i % 2 else "test"
        table.append(make_run(f"f{i}", seed=i, split=split, cause=cause, scenario=cause, family=cause[:2], **label))
        table.append(make_run(f"h{i}", seed=i, split=split))
        table.append(make_run(f"c{i}", seed=100 + i, split="calibration"))
        if i % 5 == 0:
            table.append(make_run(f"l{i}", seed=i, kind="look-alike", scenario="benign", split=split))
    return pd.DataFrame(table)


@pytest.fixture(scope="module")
def frame(runs: pd.DataFrame) -> Baseline:
    return baseline(runs, resamples=50)


Firsts = dict[str, int | None]


def card(runs: pd.DataFrame, frame: Baseline, alarms: Mapping[str, Alarms]) -> Scorecard:
    return measure("d", "blind", {}, alarms, frame)


def alarmed(runs: pd.DataFrame, frame: Baseline, firsts: Firsts) -> Scorecard:
    return card(runs, frame, {run: labelled_alarms(run, T, firsts.get(run)) for run in runs["run_id"]})


def headlines(found: Scorecard) -> list[float]:
    """All that a detector is proud of; higher is better."""
    own = found.points["default"]
    return [
        *(recall.value for recall in found.recall.values()),
        own.lead.value,
        -own.delay["from_onset"]["restricted_mean_steps"].value,
        -own.delay["from_visible"]["restricted_mean_share"].value,
        *(own.skill[cost][pi].value for cost in COSTS for pi in PREVALENCES),
    ]


STEPS = st.none() | st.integers(0, T)
FIRSTS = st.fixed_dictionaries({f"{kind}{i}": STEPS for kind in "fh" for i in range(0, N, 2)})


def test_the_oracle_at_v_scores_one(runs: pd.DataFrame, frame: Baseline) -> None:
    alarms = {run.run_id: oracle_alarms("oracle_at_v", runs.loc[i], "full") for i, run in runs.iterrows()}
    found = card(runs, frame, alarms)
    assert [found.recall[point].value for point in ("default", "0.05")] == [1.0, 1.0]
    for point in (found.points["default"], found.at_headline):
        assert point.lead.value == 1.0
        assert point.diagnosis["cause"]["1"]["macro"].value == 1.0
        assert point.delay["from_visible"]["restricted_mean_steps"].value == 0.0
    for cost in COSTS:
        for prevalence in PREVALENCES:
            assert found.points["default"].skill[cost][prevalence].value == pytest.approx(1.0, abs=1e-12)
    assert found.false_alarm_rate.value == 0.0


@settings(max_examples=30)
@given(firsts=FIRSTS)
def test_nothing_scores_more_than_the_oracle(firsts: Firsts, runs: pd.DataFrame, frame: Baseline) -> None:
    found = alarmed(runs, frame, firsts)
    assert all(recall.value <= 1.0 for recall in found.recall.values())
    for point in found.points.values():
        assert point.lead.value <= 1.0
        assert all(point.skill[cost][pi].value <= 1.0 + 1e-12 for cost in COSTS for pi in PREVALENCES)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("prevalence", PREVALENCES)
def test_the_best_blind_policy_scores_zero_and_no_blind_policy_more(
    cost: str, prevalence: float, runs: pd.DataFrame, frame: Baseline
) -> None:
    blind, labels = frame.blind[cost, prevalence], skill_runs(frame.labels)
    scores = []
    for policy in blind.policies:
        gain, loss = policy_gains(policy, labels, cost), policy_losses(policy, labels.healthy_last, cost)
        value = np.array([utility(gain.mean(), loss.mean(), prevalence)])
        scores.append(skill(value, np.array([blind.value]), np.array([blind.value + 1.0]))[0])
    assert max(scores) == pytest.approx(0.0, abs=1e-12)
    by_name = {policy.name: policy for policy in blind.policies}
    clock = int(by_name["clock"].value)
    entries: dict[str, Firsts] = {
        "never": {},
        "always": dict.fromkeys(runs["run_id"], 0),
        "clock": dict.fromkeys(runs["run_id"], clock if clock <= T else None),
    }
    for name, firsts in entries.items():
        found = alarmed(runs, frame, firsts).points["default"].skill[cost][prevalence].value
        assert found <= 1e-12, name
        position = [policy.name for policy in blind.policies].index(name)
        assert (found == pytest.approx(0.0, abs=1e-12)) == (scores[position] == pytest.approx(0.0, abs=1e-9))


def test_always_is_worse_than_never_where_an_alarm_kills(runs: pd.DataFrame, frame: Baseline) -> None:
    always, never = alarmed(runs, frame, dict.fromkeys(runs["run_id"], 0)), alarmed(runs, frame, {})
    for prevalence in PREVALENCES:
        worth = [one.points["default"].skill["kill"][prevalence].value for one in (always, never)]
        assert worth[0] < worth[1]


@pytest.mark.parametrize("entry", [Clock, Random, StepFraction])
def test_what_looks_at_nothing_earns_nothing(entry: type[Detector], data_set: DataSet) -> None:
    found = score(entry, data_set)
    for cost in COSTS:
        for prevalence in PREVALENCES:
            worth = found.skill[cost][prevalence]
            assert worth.value <= 0.0 or worth.low <= 0.0, (cost, prevalence)
    assert found.recall[BUDGET].value < 0.2


@settings(max_examples=40)
@given(firsts=FIRSTS, data=st.data())
def test_a_later_alarm_after_v_never_raises_a_score(
    firsts: Firsts, data: st.DataObject, runs: pd.DataFrame, frame: Baseline
) -> None:
    run = runs.set_index("run_id").loc[f"f{2 * data.draw(st.integers(0, N // 2 - 1))}"]
    at = data.draw(st.integers(int(run["visible_step"]), T))
    later = data.draw(st.none() | st.integers(at, T))
    before = headlines(alarmed(runs, frame, firsts | {run.name: at}))
    if later is None:
        # Saying nothing at all may be worth more than an alarm in the last steps, which still costs a response.
        before, after = before[:-9], headlines(alarmed(runs, frame, firsts | {run.name: later}))[:-9]
    else:
        after = headlines(alarmed(runs, frame, firsts | {run.name: later}))
    assert all(new <= old + 1e-12 for new, old in zip(after, before, strict=True))


@settings(max_examples=40)
@given(firsts=FIRSTS, data=st.data())
def test_one_more_false_alarm_never_improves_a_headline(
    firsts: Firsts, data: st.DataObject, runs: pd.DataFrame, frame: Baseline
) -> None:
    name = data.draw(st.sampled_from(sorted(firsts)))
    onset = runs.set_index("run_id").loc[name, "onset_step"]
    last_healthy = T if pd.isna(onset) else int(onset) - 1
    if last_healthy < 0:
        return
    at = data.draw(st.integers(0, last_healthy))
    once = {run: labelled_alarms(run, T, firsts.get(run)) for run in runs["run_id"]}
    before, after = card(runs, frame, once), card(runs, frame, once | {name: _with(once[name], at)})
    gained = [new - old for new, old in zip(headlines(after), headlines(before), strict=True)]
    assert max(gained) <= 1e-12
    assert after.false_alarm_rate.value >= before.false_alarm_rate.value
    assert after.monitor_recall.value <= 1.0


def _with(alarms: Alarms, at: int) -> Alarms:
    """The same with one more alarm."""

    class Replayed(Detector):
        def update(self, row: Row) -> bool:
            return bool(row["step"] == at or row["step"] == alarms.first_alarm)

    return _replayed(Replayed, len(alarms.steps))


def _replayed(detector: type[Detector], steps: int) -> Alarms:
    from trainwreck.evaluation.dataset.trace import Trace

    return replay(detector, Trace("r", {}, np.zeros(steps, bool)), known=())


@settings(max_examples=25)
@given(first=st.integers(0, T), repeats=st.sets(st.integers(1, REFRACTORY - 1)), latched=st.booleans())
def test_latched_and_refractory_repeats_change_nothing(
    first: int, repeats: set[int], latched: bool, runs: pd.DataFrame, frame: Baseline
) -> None:
    class Repeats(Detector):
        def update(self, row: Row) -> bool:
            after = row["step"] - first
            return bool(after == 0 or after in repeats or (latched and after > 0))

    once = {run: labelled_alarms(run, T, first) for run in runs["run_id"]}
    many = dict.fromkeys(once, _replayed(Repeats, T + 1))
    one, other = (_results(card(runs, frame, alarms)) for alarms in (once, many))
    assert one == other


def _results(found: Scorecard) -> dict[str, Any]:
    facts = found.to_dict()
    return {key: value for key, value in facts.items() if key not in ("alarms", "cost", "notes", "about")}


class Score(Detector):
    """Some score; `change` is applied to it."""

    @staticmethod
    def change(value: float) -> float:
        return value

    def update(self, row: Row) -> float:
        loss = row["loss"]
        return self.change(loss if loss is not None and loss == loss else 9.0)


@pytest.mark.parametrize("change", [np.exp, lambda x: x**3 - 50.0, lambda x: 1e-6 * x])
def test_a_monotone_transform_of_the_score_changes_nothing(change: Any, data_set: DataSet) -> None:
    changed = type("Changed", (Score,), {"change": staticmethod(lambda value: float(change(value)))})
    one, other = score(Score, data_set), score(changed, data_set)
    for budget in BUDGETS:
        first, second = one.recall[str(budget)], other.recall[str(budget)]
        assert (first.value, first.stopped) == (second.value, second.stopped)
    assert np.array_equal(one.curve()[0], other.curve()[0])
    assert np.array_equal(one.curve()[1], other.curve()[1])
    assert 0.0 < one.recall[BUDGET].value < 1.0


def test_a_constant_score_is_chance(data_set: DataSet) -> None:
    class Constant(Detector):
        def update(self, row: Row) -> float:
            return 3.0

    found = score(Constant, data_set)
    assert [found.recall[str(budget)].value for budget in BUDGETS] == [0.0, 0.0]
    stopped, recall = found.curve()
    assert recall[stopped < 1.0].max(initial=0.0) == 0.0


def test_run_order_and_ids_change_nothing(runs: pd.DataFrame) -> None:
    random = np.random.default_rng(1)
    firsts = {run: int(random.integers(0, 200)) for run in runs["run_id"]}
    shuffled = runs.sample(frac=1.0, random_state=3).reset_index(drop=True)
    names = {old: f"x{i}" for i, old in enumerate(shuffled["run_id"])}
    renamed = shuffled.assign(run_id=shuffled["run_id"].map(names))
    results = []
    for table, name in ((runs, {run: run for run in firsts}), (renamed, names)):
        alarms = {name[run]: labelled_alarms(name[run], T, at if at <= T else None) for run, at in firsts.items()}
        results.append(_rounded(_results(card(table, baseline(table, resamples=200), alarms))))
    assert results[0] == results[1]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 10) if isinstance(value, float) else value


@settings(max_examples=25)
@given(at=st.integers(0, 88), index=st.integers(0, N // 2 - 1))
def test_an_alarm_before_the_onset_earns_nothing(at: int, index: int, runs: pd.DataFrame, frame: Baseline) -> None:
    name = f"f{2 * index}"
    if at >= runs.set_index("run_id").loc[name, "onset_step"]:
        return
    silent, early = alarmed(runs, frame, {}), alarmed(runs, frame, {name: at})
    assert all(new <= old for new, old in zip(headlines(early), headlines(silent), strict=True))
    assert early.recall["default"].value == 0.0
    assert early.skill["rollback"][0.1].value < silent.skill["rollback"][0.1].value


def test_before_the_onset_a_run_and_its_twin_are_alarmed_alike(data_set: DataSet) -> None:
    pairs = [data_set.run(f"high_lr-{seed}") for seed in range(3)]
    for detector in builtin_detectors().values():
        for run in pairs:
            found, twin = (replay(detector, data_set.trace(name)) for name in (run["run_id"], run["twin_id"]))
            onset = int(run["onset_step"])
            assert found.scores[:onset].tolist() == twin.scores[:onset].tolist()
            assert found.alarm[:onset].tolist() == twin.alarm[:onset].tolist()


@pytest.mark.parametrize("output", [float("nan"), "alarm", RuntimeError("broken")])
def test_a_broken_detector_is_a_miss_with_a_visible_status(output: Any, data_set: DataSet) -> None:
    class Broken(Detector):
        def update(self, row: Row) -> Any:
            if row["loss"] < 1e9 and row["step"] < 5:
                return 0.0
            if isinstance(output, Exception):
                raise output
            return output

    found = score(Broken, data_set)
    assert found.counts["crashed"] == len(data_set)
    kind = "crashed" if isinstance(output, Exception) else "garbage"
    assert found.statuses == {kind: len(data_set)}
    assert found.cost["crashes"][0].startswith(f"{kind}: ")
    assert all(recall.value == 0.0 for recall in found.recall.values())
    assert {one["status"] for one in found.to_dict()["alarms"]} == set(found.cost["crashes"])


def test_no_crash_undoes_a_false_alarm(data_set: DataSet) -> None:
    """Alarm early everywhere, then crash where the run turns out well: the false stops stand."""

    class Cheat(Detector):
        def update(self, row: Row) -> bool:
            if row["step"] == 119 and row["loss"] < 2.5:
                raise RuntimeError
            return bool(row["step"] == 60)

    found = score(Cheat, data_set)
    assert found.counts["crashed"] > 0
    assert found.false_stop["healthy"].value == 1.0
    assert found.recall[BUDGET].value == 0.0


def test_a_detector_does_not_differ_from_itself(data_set: DataSet) -> None:
    found = score("loss_over_minimum", data_set)
    assert set(compare(found, found).values()) == {1.0}
