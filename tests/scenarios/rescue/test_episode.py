"""An episode is the run itself, wherever blocks end; what is done to it is the run that had it from the start."""

import dataclasses
import re

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.rescue.actions import Action, changes
from trainwreck.scenarios.rescue.episode import QUESTIONS, Episode, advance
from trainwreck.scenarios.spec.faults import At, LogEdit, StateEdit
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train

TINY = (
    "steps=60", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4",
    "evaluation.every=10",
)  # fmt: skip


def spec_of(name, role=Role.FAULTY, seed=3, *more):
    usual = [one for one in TINY if one.partition("=")[0] not in {other.partition("=")[0] for other in more}]
    (found,) = family_of(name, [seed], overrides=(*usual, *more), roles=(role,))
    return found


def played(spec, doings=None, block=10):
    """An episode to its end; doings: step to the actions before it, each done once."""
    one, left = Episode(spec, block=block), {step: list(texts) for step, texts in (doings or {}).items()}
    while not one.ended:
        for text in left.pop(one.step, []):
            one.act(Action.parse(text))
        advance([one])
    return one


def same(a, b, steps=None):
    n = len(a) if steps is None else steps
    return all(np.array_equal(a[name][:n], b[name][:n], equal_nan=True) for name in a.signals)


@pytest.mark.parametrize("name", ["mask_missing", "stale_optimizer_state", "bad_batch_document", "log_loss_summed"])
@pytest.mark.parametrize("block", [7, 25])
def test_a_run_that_is_left_alone_is_the_run_of_the_plan(name, block):
    spec = spec_of(name)
    plain = train([spec.job()])[0].trace
    assert same(plain, played(spec, block=block).trace())


def test_episodes_side_by_side_are_those_alone():
    specs = [
        spec_of("mask_missing"),
        spec_of("mask_missing", Role.TWIN),
        spec_of("stale_optimizer_state", Role.FAULTY, 4),
    ]
    together = [Episode(spec, block=15) for spec in specs]
    while not all(one.ended for one in together):
        advance(together)
    for one, spec in zip(together, specs, strict=True):
        assert same(one.trace(), played(spec, block=15).trace())


@pytest.mark.parametrize(
    "text",
    [
        "rate=0.3",
        "clip=0.3",
        "skip=9",
        "z_loss=0.001",
        "precision=bf16",
        "restore=mask",
        "reset_optimizer",
        "loss_scale=64",
    ],
)
def test_what_is_done_is_the_run_that_had_it_from_the_start(text):
    spec, action = spec_of("mask_missing"), Action.parse(text)
    one = played(spec, {30: [text]})
    whole = Job(
        spec.run_id,
        spec.seed,
        spec.setup,
        (*spec.job().changes, *(At(30, c) for c in changes(action, Job(spec.run_id, spec.seed, spec.setup), 30))),
    )
    assert same(train([whole])[0].trace, one.trace())
    assert not same(train([spec.job()])[0].trace, one.trace())
    assert one.trained == 60


def test_qk_norm_goes_on_with_the_weights_that_are_there():
    one = played(spec_of("mask_missing", Role.TWIN), {30: ["qk_norm"]})
    assert not one.actions[0].note
    plain = played(spec_of("mask_missing", Role.TWIN)).trace()
    assert same(plain, one.trace(), 30)
    assert abs(one.trace()["loss"][30] - plain["loss"][30]) < 1.0


def test_moments_that_are_reset_are_zero_at_the_next_step():
    one = Episode(spec_of("mask_missing", Role.TWIN), block=10)
    advance([one])
    checkpoint = {name: value.clone() for name, value in one.entry[1].items()}
    one.act(Action.parse("reset_optimizer"))
    assert not one.entry[1]["first"].any()
    assert not one.entry[1]["count"].any()
    assert bool((one.entry[1]["parameters"] == checkpoint["parameters"]).all())
    advance([one])
    one.act(Action.parse("roll_back=10"))  # the checkpoint has the moments still
    assert bool((one.entry[1]["first"] == checkpoint["first"]).all())


def test_a_roll_back_trains_the_same_steps_again_and_is_paid_for():
    spec = spec_of("mask_missing", Role.TWIN)
    one = played(spec, {40: ["roll_back=15"]})
    assert same(played(spec).trace(), one.trace())
    assert (one.step, one.trained) == (60, 80)
    assert one.spent == pytest.approx(20 / 60)
    assert one.trace().steps.tolist() == list(range(60))


def test_after_a_roll_back_other_batches_are_met_and_actions_stay():
    spec = spec_of("mask_missing", Role.TWIN)
    one = played(spec, {20: ["rate=0.5"], 40: ["roll_back_and_skip=30"]})
    assert [(at.step, type(at.change).__name__) for at in one.applied] == [(10, "Curve"), (10, "SkipBatches")]
    plain = played(spec).trace()
    assert same(plain, one.trace(), 10)
    assert one.trace()["lr"][10] == pytest.approx(0.5 * plain["lr"][10])
    assert one.trace()["loss"][10] != plain["loss"][10]


def test_what_happened_once_to_the_state_does_not_happen_again():
    spec = spec_of("stale_optimizer_state")
    onset = spec.onset
    assert 10 < onset < 50
    after = (onset // 10 + 1) * 10
    one = played(spec, {after: [f"roll_back={after - onset + 1}"]})
    twin = played(spec_of("stale_optimizer_state", Role.TWIN)).trace()
    assert np.array_equal(one.trace()["loss"], twin["loss"])
    assert not np.array_equal(played(spec).trace()["loss"], twin["loss"])


def test_the_proven_cure_at_its_step_is_the_cured_run():
    spec = spec_of("stale_optimizer_state")
    at = (spec.onset // 10 + 1) * 10
    one = Episode(spec, block=10)
    while not one.ended:
        if one.step == at:
            one.cure()
        advance([one])
    losses = train([spec.branch(at)])[0].trace["loss"]
    assert np.array_equal(one.trace()["loss"], losses)


def test_an_edit_that_changes_what_it_is_given_reaches_no_fork(monkeypatch):
    """As edits of scenarios of others may; forks and other policies hold the same states."""

    def in_place(state, earlier):
        state["parameters"].zero_()
        return state

    one = Episode(spec_of("high_lr"))
    advance([one])
    other = one.fork()
    monkeypatch.setattr(
        "trainwreck.scenarios.rescue.episode.changes", lambda *words: [StateEdit(in_place, resume=False)]
    )
    other.act(Action.parse("reset_optimizer"))
    assert not other.entry[1]["parameters"].any()
    assert one.entry[1]["parameters"].any()
    assert one.checkpoints[10][1]["parameters"].any()


def test_a_question_trains_nothing_and_is_answered():
    one = Episode(spec_of("mask_missing"), block=10)
    advance([one])
    one.act(Action.parse("ask_signal=attention_entropy"))
    one.act(Action.parse("ask_detector=nonfinite_loss"))
    seen = one.observation()
    assert one.step == 10
    assert seen.answer == "nonfinite_loss: no alarm"
    assert one.priced == pytest.approx(0.01)
    advance([one])
    rows = one.observation().rows
    assert rows[0]["attention_entropy"] is not None
    assert rows[0]["token_entropy"] is None
    assert [row["step"] for row in rows] == list(range(10, 20))
    before = one.observation().history[:10]
    assert all(row["attention_entropy"] is None for row in before)


def test_a_detector_that_alarms_names_its_causes():
    one = played(spec_of("nan_weight_spread"))
    one.ended = ""  # as it stands there
    one.act(Action.parse("ask_detector=playbook"))
    said, _, causes = one.observation().answer.partition("; causes: ")
    assert re.fullmatch(r"playbook: alarm at step \d+", said)
    assert set(causes.split(", ")) <= {*scenarios(), "unknown"}


def test_questions_come_to_an_end():
    one = Episode(spec_of("mask_missing"), block=10)
    for _ in range(QUESTIONS + 1):
        one.act(Action.parse("ask_signal=attention_entropy"))
    assert one.actions[-1].note == f"over {QUESTIONS} questions"
    assert one.priced == pytest.approx(0.01 * QUESTIONS)


def test_after_the_end_nothing_can_be_done():
    one = Episode(spec_of("mask_missing"), block=30)
    one.act(Action.parse("stop"))
    advance([one])
    assert (one.ended, one.trained) == ("stopped", 0)
    with pytest.raises(InputError, match="the episode has ended"):
        one.act(Action.parse("continue"))


def test_a_run_that_is_no_longer_finite_can_be_rolled_back_and_ends_if_it_is_not():
    spec = spec_of("nan_weight_spread")
    left = played(spec)
    assert left.ended == "non-finite"
    bad = int(np.flatnonzero(~np.isfinite(left.trace()["loss"]))[0])
    after = (bad // 10 + 1) * 10
    saved = played(spec, {after: [f"roll_back={after - spec.onset + 1}"]})
    assert saved.ended == "end"
    assert np.isfinite(saved.trace()["loss"]).all()


def test_rolling_back_for_ever_ends_with_the_budget():
    spec = spec_of("mask_missing", Role.TWIN)
    one = Episode(spec, block=10)
    while not one.ended:
        if one.step == 50:
            one.act(Action.parse("roll_back=20"))
        advance([one])
    assert one.ended == "budget"
    assert one.trained == 120


def test_a_model_of_another_shape_is_not_possible_in_mid_run():
    one = Episode(spec_of("capacity_too_small", Role.FAULTY, 3, "model.width=32"), block=10)
    advance([one])
    one.act(Action.parse("restore=model"))
    assert one.actions[-1].note == "not possible in mid-run: a model of another shape"
    advance([one])
    assert one.step == 20


@pytest.mark.parametrize("block", [0, 61])
def test_a_block_longer_than_the_run_is_refused(block):
    with pytest.raises(InputError, match="allowed: 1 to 60"):
        Episode(spec_of("mask_missing"), block=block)


def test_a_wrong_log_is_shown_as_it_is_written():
    spec = spec_of("log_loss_summed")
    assert any(isinstance(at.change, LogEdit) for at in spec.job().changes)
    one = played(spec)
    twin = played(dataclasses.replace(spec, role=Role.TWIN))
    assert one.trace()["loss"][-1] > 1.5 * twin.trace()["loss"][-1]
    assert [row["loss"] for row in one.observation().history] == one.trace()["loss"].tolist()


def test_what_a_setup_has_planned_is_part_of_what_is_declared():
    spec = spec_of("lora_gets_no_gradient", Role.TWIN)
    (planned,) = {at.step for at in spec.job().made}
    early = Episode(spec, block=10)
    early.act(Action.parse("restore=updates"))
    assert early.actions[-1].note == f"action restore=updates: not possible before step {planned}"
    after = (planned // 10 + 1) * 10
    restored = played(spec, {after: ["restore=updates", "restore=model", "restore=data"]})
    assert [done.note for done in restored.actions] == ["", "", ""]
    assert same(played(spec).trace(), restored.trace())


def test_what_was_restored_after_a_planned_change_is_not_so_before_it():
    spec = spec_of("lora_gets_no_gradient", Role.TWIN)
    (planned,) = {at.step for at in spec.job().made}
    after = (planned // 10 + 1) * 10
    assert after - 10 < planned
    back = played(spec, {after + 10: ["restore=updates", "roll_back=20"]})
    assert back.trained == 80
    assert same(played(spec).trace(), back.trace())


def test_adapters_that_get_no_gradient_get_one_again():
    spec = spec_of("lora_gets_no_gradient")
    left, restored = played(spec), played(spec, {50: ["restore=updates"]})
    assert left.trace()["adapter_norm"][-1] == 0
    assert restored.trace()["adapter_norm"][-1] > 0
