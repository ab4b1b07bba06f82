"""`train(stop=0)` meant no stop, and ids past a run's table read the neighbour's rows."""

import dataclasses

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.faults import At, DataTransform
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.loop import train

SETUP = replaced(healthy(Size.MICRO), steps=4, data__rows=2, evaluation__rows=2)


@pytest.mark.parametrize("stop", [0, -1])
def test_a_stop_before_the_first_step_is_refused(stop):
    with pytest.raises(ValueError, match=r"^stop: .* is not allowed for a run entered at 0; allowed: 1 or more$"):
        train([Job("run", 0, SETUP)], stop=stop)


@pytest.mark.parametrize("id", [SETUP.model.vocab_size, -1])
def test_ids_outside_the_table_are_refused(id):
    def damage(batch, since, draw):
        inputs = batch.inputs.copy()
        inputs[0, 0] = id
        return dataclasses.replace(batch, inputs=inputs)

    job = Job("run", 0, SETUP, (At(2, DataTransform(damage, "damage")),))
    with pytest.raises(InputError, match=r"^model\.vocab_size: 64 is not allowed with this data"):
        train([job])
