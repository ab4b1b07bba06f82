"""Each kind of change: what it changes through the one interface, and all that it leaves."""

import dataclasses

import numpy as np
import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import Placement
from trainwreck.models.parameters import layout
from trainwreck.models.parametrization import Parametrization, Updates
from trainwreck.models.tables import healthy_tables
from trainwreck.scenarios.config.settings import as_dict, get
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.faults import (
    At,
    Change,
    Clock,
    Curve,
    DataTransform,
    FaultKind,
    LogEdit,
    ParametrizationEdit,
    Scaled,
    SchedulePosition,
    Setting,
    StateEdit,
    Stream,
    TableEdit,
    Undo,
    UpdateEdit,
    Variant,
)
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train


def no_scores(tables, setup):
    return dataclasses.replace(tables, scale_N=torch.zeros_like(tables.scale_N))


def shuffled(batch, since, draw):
    return dataclasses.replace(batch, inputs=batch.inputs + since, targets=draw.permuted(batch.targets, axis=1))


def swapped(state, earlier):
    return {**state, "second": earlier["second"]}


def doubled(parametrization, plan):
    return parametrization.scaled(plan.places("head.weight"), 2.0, plan.size)


def frozen(updates, plan):
    return dataclasses.replace(updates, reaches_NP=torch.zeros(1, plan.size, dtype=torch.bool))


def halved(row, before, since):
    return {**row, "loss": row["loss"] / 2}


CHANGES = {
    "setting": (Setting("optimizer.lr", 0.5), FaultKind.SETTING, "setup"),
    "scaled": (Scaled("optimizer.lr", 3.0), FaultKind.SETTING, "setup"),
    "variant": (Variant("model.placement", Placement.POST), FaultKind.VARIANT, "setup"),
    "table edit": (TableEdit(no_scores), FaultKind.TENSOR, "tables"),
    "parametrization edit": (ParametrizationEdit(doubled), FaultKind.TENSOR, "parametrization"),
    "update edit": (UpdateEdit(frozen), FaultKind.TENSOR, "updates"),
    "curve": (Curve(lambda rate, since, setup: rate + since), FaultKind.TENSOR, "learning_rate"),
    "data transform": (DataTransform(shuffled, "shuffled"), FaultKind.DATA, "batch"),
    "state edit": (StateEdit(swapped, since=-3), FaultKind.STATE, "state"),
    "log edit": (LogEdit(halved), FaultKind.LOG, "log"),
    "undo": (Undo(), None, ""),
    "none": (Change(), None, ""),
}


@pytest.fixture(params=CHANGES)
def entry(request):
    return CHANGES[request.param]


def test_a_change_touches_its_own_part_alone(entry, tiny):
    change, kind, touched = entry
    tables, state, earlier = healthy_tables(tiny.model, 1), {"second": 1}, {4: {"second": 2}}
    parametrization, updates = Parametrization(), Updates()
    batch, row = training_block(tiny, 3, range(7, 8)).at(0), {"loss": 3.0}
    left = {
        "setup": change.setup(tiny) is tiny,
        "tables": change.tables(tables, tiny) is tables,
        "parametrization": change.parametrization(parametrization, tiny) is parametrization,
        "updates": change.updates(updates, tiny) is updates,
        "learning_rate": change.learning_rate(0.25, 7, 5, tiny) == 0.25,
        "batch": change.batch(batch, 7, 5, 3) is batch,
        "state": change.state(state, earlier, 7) is state,
        "log": change.logged(row, [], 7, 5) is row,
    }
    assert [name for name, same in left.items() if not same] == ([touched] if touched else [])
    assert getattr(change, "kind", None) is kind
    assert bool(change.needs(7)) == (kind is FaultKind.STATE)


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        (Setting("optimizer.lr", 0.5), "optimizer.lr", 0.5),
        (Setting("optimizer.clip", None), "optimizer.clip", None),
        (Scaled("optimizer.lr", 3.0), "optimizer.lr", 3.0 * 1e-2),
        (Variant("model.placement", Placement.POST), "model.placement", Placement.POST),
    ],
)
def test_a_setting_changes_one_value(change, path, value, tiny):
    before, after = as_dict(tiny), as_dict(change.setup(tiny))
    assert get(change.setup(tiny), path) == value
    group, name = path.split(".")
    after[group][name] = before[group][name]
    assert after == before
    assert as_dict(tiny) == before  # the setup given is not written to


def test_a_table_edit_leaves_the_other_tables(tiny):
    tables = healthy_tables(tiny.model, 1)
    edited = TableEdit(no_scores).tables(tables, tiny)
    assert edited.scale_N.tolist() == [0]
    for field in dataclasses.fields(tables):
        if field.name != "scale_N":
            assert getattr(edited, field.name) is getattr(tables, field.name)


def test_weights_and_updates_are_edited(tiny):
    parametrization = ParametrizationEdit(doubled).parametrization(Parametrization(), tiny)
    head = layout(tiny.model).slot("head.weight")
    twice = torch.ones(layout(tiny.model).size)
    twice[head.start : head.stop] = 2
    assert torch.equal(parametrization.gain_NP[0], twice)
    assert (parametrization.index_NP, parametrization.shift_NP) == (None, None)
    updates = UpdateEdit(frozen).updates(Updates(kept_N=torch.tensor([True])), tiny)
    assert not updates.reaches_NP.any()
    assert updates.kept_N.all()


def test_a_curve_counts_from_its_start(tiny):
    curve = Curve(lambda rate, since, setup: rate * setup.steps + since)
    assert curve.learning_rate(2.0, 9, 5, tiny) == 2.0 * tiny.steps + 4


def test_a_data_transform_draws_from_its_own_stream(tiny):
    batch = training_block(tiny, 3, range(7, 8)).at(0)
    change = DataTransform(shuffled, "shuffled")
    copies = [a.copy() for a in (batch.inputs, batch.targets, batch.weights, batch.documents)]
    first = change.batch(batch, 7, 5, 3)
    assert np.array_equal(first.inputs, batch.inputs + 2)
    assert first.weights is batch.weights
    assert np.array_equal(first.targets, change.batch(batch, 7, 5, 3).targets)
    others = [(change, 8, 3), (change, 7, 4), (DataTransform(shuffled, "another"), 7, 3)]
    for other, step, seed in others:
        assert not np.array_equal(first.targets, other.batch(batch, step, 5, seed).targets)
    for copy, array in zip(copies, (batch.inputs, batch.targets, batch.weights, batch.documents), strict=True):
        assert np.array_equal(copy, array)


def test_a_clock_counts_from_its_start_and_moves_time_alone(tiny, make_job, differing):
    def slow(seconds, since):
        return seconds * (2 + since)

    clean, slowed = train([make_job(3, tiny), make_job(3, tiny, At(4, Clock(slow)), name="slowed")])
    assert differing(clean, slowed) == ["tokens_per_second", "step_seconds"]
    ratio = slowed.trace["step_seconds"] / clean.trace["step_seconds"]
    np.testing.assert_allclose(ratio, [1.0] * 4 + [2.0 + since for since in range(16)], rtol=1e-6)


def test_a_stream_knows_step_start_and_seed_and_is_entered_from_a_checkpoint(tiny, make_job, differing):
    calls = []

    def edit(batch, step, start, seed):
        calls.append((step, start, seed))
        return dataclasses.replace(batch, targets=(batch.targets + step - start) % 28)

    job = make_job(3, tiny, At(5, Stream(edit)))
    whole = train([job, make_job(4, tiny)], keep={job.run_id: [9]})[0]
    assert calls == [(step, 5, 3) for step in range(5, 20)]
    entered = train([job], enter={job.run_id: (9, whole.states[9])})[0]
    assert all(np.array_equal(entered.trace[n], v[9:], equal_nan=True) for n, v in whole.trace.signals.items())


@pytest.mark.parametrize(("since", "needed"), [(-3, 4), (-7, 0), (-9, 0), (0, 0), (2, 2)])
def test_a_state_edit_sees_the_state_it_asks_for(since, needed):
    edit = StateEdit(lambda state, earlier: {**state, "seen": earlier["of"]}, since=since)
    assert edit.needs(7) == (needed,)
    assert edit.state({"a": 1}, {step: {"of": step} for step in range(7)}, 7) == {"a": 1, "seen": needed}


@pytest.mark.parametrize("step", [-1, -100])
def test_a_step_before_the_first_raises(step):
    with pytest.raises(ValueError, match=rf"^step: {step} is not allowed; allowed: 0 or more$"):
        At(step, Setting("optimizer.lr", 0.1))


@pytest.mark.parametrize(
    "change", [Setting("optimizer.lrr", 1.0), Scaled("optimizer.lrr", 2.0), Setting("optimizer.lr.x", 1.0)]
)
def test_a_path_that_is_not_there_raises(change, tiny, make_job):
    with pytest.raises(InputError, match=r"optimizer\.lr"):
        make_job(0, tiny, At(3, change)).segments  # noqa: B018


@pytest.mark.parametrize("name", scenarios())
def test_the_catalogue_declares_the_kinds_it_uses(name):
    entry = scenarios()[name]
    setup = entry.base(healthy(entry.sizes[0]))
    for knobs in entry.severities.values() or (entry.knobs,):
        kinds = {change.kind for change in entry.fault(knobs, setup)}
        assert kinds <= set(entry.kinds)
        assert kinds == set(entry.kinds) or not kinds  # one scenario has no change to its base


def test_a_schedule_at_another_position_has_the_rate_of_that_step(tiny, make_job):
    restarted = make_job(0, tiny, At(7, SchedulePosition(lambda step, start: step - start)))
    plain = make_job(0, tiny)
    assert [restarted.learning_rate(s) for s in range(7)] == [plain.learning_rate(s) for s in range(7)]
    assert [restarted.learning_rate(s) for s in range(7, 20)] == [plain.learning_rate(s) for s in range(13)]
    back = make_job(0, tiny, *restarted.changes, At(12, SchedulePosition(lambda step, start: step)))
    assert [back.learning_rate(s) for s in range(12, 20)] == [plain.learning_rate(s) for s in range(12, 20)]


@pytest.mark.parametrize("id", ["rope_low_precision", "rope_on_keys_only", "rope_wrong_frequency", "rope_wrong_offset"])
def test_a_fault_of_the_rotation_is_refused_where_positions_are_learned(id):
    family_of(id, [0], roles=(Role.FAULTY,))
    with pytest.raises(InputError) as refusal:
        family_of(id, [0], overrides=("model.positions=document",), roles=(Role.FAULTY,))[0].job()
    assert str(refusal.value) == "model.positions: 'document' is not allowed for this fault; allowed: 'rotary'"


@pytest.mark.parametrize(
    ("scenario", "override", "parameter"),
    [
        ("nan_weight_spread", "model.experts=16", "layer_0.mlp_in.weight"),
        ("sdc_weight_bit", "model.experts=16", "layer_0.mlp_in.weight"),
        ("output_reinitialised", "model.tied=true", "head.weight"),
        ("output_init_too_large", "model.tied=true", "head.weight"),  # its cure changes it
    ],
)
def test_a_model_without_the_parameter_is_refused(scenario: str, override: str, parameter: str) -> None:
    with pytest.raises(InputError) as refusal:
        family_of(scenario, [0], overrides=(override,))
    line = f"{scenario}: the model has no parameter {parameter}, which is changed; allowed: models that have it"
    assert str(refusal.value) == line
