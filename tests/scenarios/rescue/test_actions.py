"""What may be done to a run: what is allowed, what it costs, and that it is a change of the run."""

from dataclasses import replace

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.schedule import learning_rate
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.rescue.actions import PRICES, TABLE, Action, Kind, Part, changes
from trainwreck.scenarios.spec.faults import At, Curve, DataTransform, SkipBatches, TableEdit
from trainwreck.scenarios.spec.job import Job

SETUP = replaced(healthy(Size.MICRO), steps=60, data__rows=2)


@pytest.mark.parametrize("action", TABLE, ids=str)
def test_the_text_of_an_action_is_read_back(action):
    assert Action.parse(str(action)) == action


def test_the_table_has_every_kind_but_a_question_for_a_signal():
    assert {action.kind for action in TABLE} == set(Kind) - {Kind.ASK_SIGNAL}
    assert len(set(TABLE)) == len(TABLE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rate=4", "action rate: 4 is not allowed; allowed: 0.1 to 3"),
        ("rate=nan", "action rate: nan is not allowed; allowed: 0.1 to 3"),
        ("rate=fast", "action: 'rate=fast' is not allowed; allowed: rate=NUMBER"),
        ("rate", "action rate: 'None' is not allowed; allowed: 0.1 to 3"),
        ("skip=2.5", "action skip: 2.5 is not allowed; allowed: whole numbers from 1 to 100000"),
        ("restore=masc", "did you mean 'mask'?"),
        ("stop=1", "action stop: '1' is not allowed; allowed: none"),
        ("loss_scale=0", "action loss_scale: 0 is not allowed; allowed: dynamic, or 1 to 1.67772e+07"),
        ("ask_detector=os", "action ask_detector: 'os' is not allowed; allowed: a built-in detector that can run here"),
        ("rol_back=50", "did you mean 'roll_back'?"),
    ],
)
def test_what_is_not_allowed_is_refused_in_a_line(text, says):
    with pytest.raises(InputError) as refused:
        Action.parse(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_code_costs_more_than_settings_and_a_setting_nothing():
    assert Action.parse("restore=mask").price == PRICES[Kind.RESTORE] > Action.parse("restore=settings").price > 0
    assert Action.parse("rate=0.5").price == Action.parse("clip=1").price == 0


def changed(text):
    return changes(Action.parse(text), Job("r", 0, SETUP), 0)


def job_with(*at):
    return Job("r", 0, SETUP, tuple(at))


def test_rates_multiply_and_a_warm_up_comes_back_to_what_it_would_be():
    (slow,), (warm,) = changed("rate=0.5"), changed("rewarm=10")
    job = job_with(At(20, slow), At(30, slow), At(40, warm))
    usual = [learning_rate(SETUP, step) for step in range(60)]
    assert [job.learning_rate(step) / usual[step] for step in (19, 20, 29, 30, 40, 44, 49, 59)] == pytest.approx(
        [1, 0.5, 0.5, 0.25, 0.025, 0.125, 0.25, 0.25]
    )


def test_batches_that_are_skipped_are_those_of_later_steps():
    plain, skipping = job_with(), job_with(At(20, SkipBatches(7)), At(40, SkipBatches(5)))
    same = np.array_equal
    for steps, places in (
        (range(10, 20), range(10, 20)),
        (range(20, 30), range(27, 37)),
        (range(40, 45), range(52, 57)),
    ):
        assert same(skipping.batches(steps).inputs, plain.batches(places).inputs)


def test_a_bad_batch_is_met_where_it_lies_and_can_be_skipped():
    def ruined(batch, since, draws):
        return replace(batch, inputs=np.zeros_like(batch.inputs)) if since < 3 else batch

    fault = At(30, DataTransform(ruined, "test"))
    bad = job_with(fault).batches(range(30, 36)).inputs
    assert not bad[:3].any()
    assert bad[3:].any()
    skipped = job_with(fault, At(20, SkipBatches(8)))
    assert [not skipped.batches(range(s, s + 1)).inputs.any() for s in range(20, 28)] == [0, 0, 1, 1, 1, 0, 0, 0]


def test_a_part_that_is_restored_is_as_declared_and_others_stay():
    def open_mask(tables, setup):
        return replace(tables, allowed_NTS=tables.allowed_NTS | True, scale_N=tables.scale_N * 3)

    fault = At(0, TableEdit(open_mask))
    healthy_run = job_with().segment(0).tables
    for part, mask, scale in ((Part.MASK, True, False), (Part.MODEL, False, True), (Part.DATA, False, False)):
        (fix,) = changed(f"restore={part.value}")
        found = job_with(fault, At(0, fix)).segment(0).tables
        assert bool((found.allowed_NTS == healthy_run.allowed_NTS).all()) is mask
        assert bool((found.scale_N == healthy_run.scale_N).all()) is scale


def test_settings_and_data_that_are_restored_are_those_declared():
    def other(batch, since, draws):
        return replace(batch, inputs=batch.inputs[:, ::-1])

    faults = (At(0, Curve(lambda rate, since, setup: 9.0)), At(0, DataTransform(other, "test")))
    settings, data = (changed(f"restore={part}")[0] for part in ("settings", "data"))
    job = job_with(*faults, At(20, settings), At(30, data))
    assert [job.learning_rate(step) for step in (19, 20)] == [9.0, learning_rate(SETUP, 20)]
    plain = job_with().batches(range(30, 32)).inputs
    assert np.array_equal(job.batches(range(30, 32)).inputs, plain)
    assert not np.array_equal(job.batches(range(20, 22)).inputs, job_with().batches(range(20, 22)).inputs)
