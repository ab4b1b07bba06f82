"""Points of no return: bisection over branches, its budget, and branches that are the runs they say they are."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from trainwreck.scenarios.proof import no_return
from trainwreck.scenarios.proof.no_return import BUDGET, RESOLUTION, WIDE, Search, search, states_held
from trainwreck.scenarios.proof.no_return_dataset import case
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train

TINY = ("steps=24", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4")
STEPS = 400


class Trace:
    """Ends at a final loss."""

    def __init__(self, final):
        self.final = final

    def final_loss(self):
        return self.final


class Stand:
    """Stands in for a faulty run: until `saved` says no, a branch ends as the twin."""

    def __init__(self, onset, saved, steps=STEPS):
        self.onset, self.setup, self.run_id, self.saved = onset, SimpleNamespace(steps=steps), "run", saved

    def job(self):
        return SimpleNamespace(run_id="run")

    def branch(self, step):
        return SimpleNamespace(run_id=f"run@{step}", snapshots=set, segments=())


def stand_in(monkeypatch, one):
    """Train nothing; say how branches end, and check that each is entered from where it may be.

    Returns how many states were held, each time that branches were trained.
    """
    held = []

    def fake(jobs, *, enter, earlier, keep=None, stop=None, record=True, **place):
        results = []
        for job in jobs:
            _, _, step = job.run_id.partition("@")
            if step:
                held.append(len(one.states))
                entered = enter.get(job.run_id, (0, None))
                assert entered == (max(0, int(step) - 1), {} if int(step) > 1 else None)
                results.append(SimpleNamespace(trace=Trace(3.0 if one.spec.saved(int(step)) else 4.0)))
            else:
                begun, end = enter.get("run", (0, None))[0], stop["run"]
                assert begun < end
                results.append(SimpleNamespace(states={at: {} for at in keep["run"] if begun < at <= end}))
        return results

    monkeypatch.setattr(no_return, "train", fake)
    return held


def searched(monkeypatch, saved, onset=160, cured=170, last=STEPS - 1):
    gaps = {} if cured is None else {cured: 0.0 if saved(cured) else 1.0}
    one = Search(Stand(onset, saved), last, 3.0, 0.05, gaps)
    stand_in(monkeypatch, one)
    search([one])
    return one.result()


@pytest.mark.parametrize("p", [170, 171, 180, 199, 250, 333, 390, 398, 399])
@pytest.mark.parametrize("last", [STEPS - 1, 350])
def test_finds_the_last_step_in_time(monkeypatch, p, last):
    found = searched(monkeypatch, lambda step: step <= p, last=last)
    # An early p takes long branches, so that the budget ends the search sooner.
    assert min(p, last) - (0.03 if p < 200 else 1.5 * RESOLUTION) * STEPS <= found["no_return_step"] <= min(p, last)
    assert found["monotone"]
    assert found["cost"] <= BUDGET


@pytest.mark.parametrize("p", range(0, STEPS, 7))
def test_an_early_point_of_a_fault_from_step_0_within_the_budget(monkeypatch, p):
    found = searched(monkeypatch, lambda step: step <= p, onset=0, cured=0)
    assert p - 0.13 * STEPS <= found["no_return_step"] <= p
    assert found["cost"] <= BUDGET


def test_without_a_cured_run_the_cure_is_tried_at_the_onset(monkeypatch):
    found = searched(monkeypatch, lambda step: step <= 300, cured=None)
    assert "160" in found["branches"]
    assert 290 <= found["no_return_step"] <= 300


@pytest.mark.parametrize("cured", [170, None])
def test_a_run_that_nothing_saves_is_lost_at_its_onset(monkeypatch, cured):
    found = searched(monkeypatch, lambda step: False, cured=cured)
    assert found["no_return_step"] == 160
    assert found["branches"]["160"] == 1.0


def test_a_cure_that_comes_too_late_in_the_cured_run(monkeypatch):
    found = searched(monkeypatch, lambda step: step <= 163, cured=200)
    assert found["no_return_step"] in range(160, 164)


@pytest.mark.parametrize("saved", [lambda t: t <= 220 or t >= 330, lambda t: t <= 180 or t >= 340], ids=["220", "180"])
def test_a_branch_saved_after_one_that_was_lost_is_told(monkeypatch, saved):
    found = searched(monkeypatch, saved)
    assert not found["monotone"]
    assert found["no_return_step"] <= 220
    assert found["cost"] <= BUDGET


@pytest.mark.parametrize("p", range(170, 400, 10))
def test_no_wide_stretch_is_left_unseen(monkeypatch, p):
    found = searched(monkeypatch, lambda step: step <= p)
    assert STEPS - max(map(int, found["branches"])) <= WIDE * STEPS


@pytest.mark.parametrize("steps", [30, 60, 120, 400, 800, 4000])
def test_a_search_holds_no_more_states_than_it_says(monkeypatch, steps):
    most = 0
    for onset in (0, steps // 10, steps * 2 // 5):
        for p in range(onset, steps, max(1, steps // 20)):
            for again in (steps, p + (steps - p) // 2):  # saved again from here on
                saved = lambda step, p=p, again=again: step <= p or step >= again  # noqa: E731
                one = Search(Stand(onset, saved, steps), steps - 1, 3.0, 0.05)
                held = stand_in(monkeypatch, one)
                search([one])
                most = max(most, *held)
    assert 0.8 * states_held(steps) - 1 <= most <= states_held(steps)


@pytest.mark.parametrize("name", ["output_reinitialised", "sqrt_negative", "spiky_layer", "loss_wrong_reduction"])
def test_a_late_cure_takes_from_the_same_checkpoint(name):
    (spec,) = family_of(name, [0], roles=(Role.CURED,))
    usual = spec.branch(spec.cure_step)
    assert usual.snapshots() == spec.job().snapshots()
    for step in (spec.onset, spec.cure_step + 1, spec.cure_step + 40):
        assert spec.branch(step).snapshots() == usual.snapshots()
    assert min(usual.snapshots()) <= spec.onset


@pytest.mark.parametrize("name", [name for name, entry in scenarios().items() if not entry.look_alike])
def test_a_branch_is_the_faulty_run_until_its_cure(name):
    (spec,) = family_of(name, [0], roles=(Role.FAULTY,))
    step = spec.onset + 3
    branch, faulty = spec.branch(step), spec.job()
    assert [at for at in branch.changes if at.step < step] == [at for at in faulty.changes if at.step < step] or (
        len(branch.changes) > len(faulty.changes)
    )
    assert {at.step for at in branch.changes} - {at.step for at in faulty.changes} <= {step}
    assert len([at for at in branch.changes if at.step == step]) >= len(scenario(name).cure(spec.knobs, spec.setup))


@pytest.mark.parametrize("name", ["mask_missing", "output_reinitialised", "stale_optimizer_state+high_lr"])
def test_branches_end_as_runs_that_never_stopped(name):
    specs = family_of(name, [3, 4], overrides=TINY, roles=(Role.FAULTY,))
    searches = [Search(spec, 23, 0.0, 0.0) for spec in specs]
    for one in searches:
        one.gaps = {one.onset: 0.0}  # so that it bisects
    search(searches)
    for one in searches:
        assert len(one.gaps) > 2
        assert not one.states
        for step, gap in one.gaps.items():
            if step != one.onset:
                whole = train([one.spec.branch(step)])[0].trace
                assert np.float32(gap) == np.float32(whole.final_loss())


@pytest.mark.parametrize(("name", "known"), [("mask_missing", True), ("mask_missing+corrupt_tokens", False)])
def test_the_cured_run_is_a_branch_where_it_has_one_cure(name, known):
    specs = {spec.role: spec for spec in family_of(name, [3])}
    faulty, cured = specs[Role.FAULTY], specs[Role.CURED]
    rows = {
        spec.run_id: {"twin_id": "twin", "final_loss": 2.5, "last_step": 799, "tolerance": 0.1}
        for spec in specs.values()
    }
    rows["twin"] = {"final_loss": 2.0}
    dataset = SimpleNamespace(runs=pd.DataFrame(index=list(rows)), run=rows.__getitem__)
    assert case(dataset, faulty).gaps == ({cured.cure_step: 0.5} if known else {})


def test_a_cure_that_is_another_model_goes_on_with_the_weights_that_both_have():
    (spec,) = family_of("attention_logit_growth", [20], overrides=TINY, roles=(Role.FAULTY,))
    one = Search(spec, 23, 2.0, 0.1)
    search([one])
    assert one.in_place
    assert one.result()["branches"]


def test_a_cure_of_other_shapes_has_no_point_and_trains_nothing(monkeypatch):
    (spec,) = family_of("capacity_too_small", [20], roles=(Role.FAULTY,))
    one = Search(spec, 299, 2.0, 0.1, {0: 0.0})
    monkeypatch.setattr(no_return, "train", lambda *_, **__: pytest.fail("it was trained"))
    search([one])
    assert one.result() == {
        "run_id": spec.run_id, "no_return_step": None, "monotone": None, "branches": {}, "cost": 0.0,
    }  # fmt: skip
