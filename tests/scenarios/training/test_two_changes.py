"""Two changes in one run, of every two kinds: each moves the numbers beside the other, whichever comes first.

Runs are entered from one state a step before the changes, so that what differs is what the changes do at their first
step: what the model computes, what it trains on, the rate, the gradients and the update.
"""

import dataclasses
import itertools
import sys

import cloudpickle
import numpy as np
import pytest
import torch

from trainwreck.models.config import Variance
from trainwreck.models.parametrization import projections
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import (
    At,
    Clock,
    Curve,
    DataTransform,
    ParametrizationEdit,
    Process,
    Scaled,
    Setting,
    StateEdit,
    Stream,
    TableEdit,
    UpdateEdit,
    Variant,
)
from trainwreck.scenarios.training.loop import train

STEP = 2


def table(make):
    return TableEdit(lambda tables, setup: dataclasses.replace(tables, **make(tables)))


def update(make):
    return UpdateEdit(lambda updates, plan: dataclasses.replace(updates, **make(plan)))


def all_but(plan, name):
    mask = torch.ones(1, plan.size, dtype=torch.bool)
    mask[:, plan.places(name).flatten()] = False
    return mask


def noisy(batch, since, draw):
    return dataclasses.replace(batch, inputs=np.where(draw.random(batch.inputs.shape) < 0.3, 1, batch.inputs))


def unscored(batch, step, start, seed):
    return dataclasses.replace(batch, weights=batch.weights * (np.arange(batch.weights.shape[1]) < 20))


CHANGES = {
    "norm": table(lambda tables: {"bare_NL2": torch.tensor([[[True, False], [False, False]]])}),
    "variance": Variant("model.variance", Variance.EPS_OUTSIDE),
    "branch": table(lambda tables: {"branch_gain_NL2": torch.tensor([[[1.0, 0.5], [1.0, 1.0]]])}),
    "logits": table(lambda tables: {"logit_gain_N": torch.tensor([3.0])}),
    "shortcut": table(lambda tables: {"shortcut_gain_NL2": torch.full((1, 2, 2), 0.5)}),
    "stream": table(lambda tables: {"noise_N": torch.tensor([0.5])}),
    "mask": table(lambda tables: {"allowed_NTS": torch.ones_like(tables.allowed_NTS).tril(2)}),
    "documents": table(lambda tables: {"documents_N": torch.zeros(1, dtype=torch.bool)}),
    "rope": table(lambda tables: {"rotary_q_NTK": torch.ones_like(tables.rotary_q_NTK)}),
    "scale": table(lambda tables: {"scale_N": tables.scale_N * 4}),
    "weight gain": ParametrizationEdit(lambda p, plan: p.scaled(projections(plan, 0, 2)[:, 2], 0.0, plan.size)),
    "weight index": ParametrizationEdit(
        lambda p, plan: p.moved(projections(plan, 1, 2)[:, [0, 1]], projections(plan, 1, 2)[:, [1, 0]], plan.size)
    ),
    "weight shift": ParametrizationEdit(
        lambda p, plan: p.shifted(plan.places("layer_1.mlp_norm.bias"), 0.5, plan.size)
    ),
    "gradient gain": update(lambda plan: {"gain_N": torch.tensor([0.3])}),
    "frozen": update(lambda plan: {"reaches_NP": all_but(plan, "layer_0.mlp_in.weight")}),
    "unmoved": update(lambda plan: {"moves_NP": all_but(plan, "layer_1.mlp_in.weight")}),
    "decay": update(lambda plan: {"decays_NP": torch.full((1, plan.size), 3.0)}),
    "batch": DataTransform(noisy, "noisy"),
    "batches": Stream(unscored),
    "rate": Curve(lambda rate, since, setup: rate * 3),
    "scaled setting": Scaled("optimizer.lr", 0.5),
    "setting": Setting("optimizer.beta1", 0.5),
    "clock": Clock(lambda seconds, since: seconds + 9),
    "state": StateEdit(lambda state, earlier: {**state, "first": state["first"] * 5}),
    "exchange": Process(lambda exchange: dataclasses.replace(exchange, shards=(0,) * exchange.ranks)),
}
ORDERS = list(itertools.permutations(CHANGES, 2))


def ranks(names):
    return 2 if "exchange" in names else 1


@pytest.fixture(scope="module")
def numbers(tiny, make_job):
    """Signals of the first step under the changes, and the state after it, by the changes' names in their order."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # for the processes of the ranks
    setup, found = replaced(tiny, model__norm_eps=0.3, optimizer__clip=None), {}
    state = train([make_job(3, setup)], keep={"run-3": [STEP - 1]}, stop=STEP)[0].states[STEP - 1]
    for count in (1, 2):
        setup = replaced(setup, distributed__ranks=count)
        names = [(), *((name,) for name in CHANGES), *(order for order in ORDERS if ranks(order) == count)]
        names = [some for some in names if ranks(some) <= count]
        jobs = [make_job(3, setup, *(At(STEP, CHANGES[one]) for one in some), name="+".join(some)) for some in names]
        results = train(
            jobs,
            enter={job.run_id: (STEP - 1, state) for job in jobs},
            earlier={job.run_id: {0: state} for job in jobs},
            stop=STEP + 1,
            keep={job.run_id: [STEP + 1] for job in jobs},
        )
        for some, result in zip(names, results, strict=True):
            signals = {name: values[-1] for name, values in result.trace.signals.items()}
            found[count, some] = signals | {k: v.numpy() for k, v in result.states[STEP + 1].items()}
    return found


def apart(one, other):
    """Whether any number is further apart than rounding."""
    names = one.keys() & other.keys()
    return any(not np.allclose(one[k], other[k], rtol=1e-3, atol=1e-7, equal_nan=True) for k in names)


@pytest.mark.parametrize("name", CHANGES)
def test_each_moves_the_numbers(name, numbers):
    count = ranks([name])
    assert apart(numbers[count, (name,)], numbers[count, ()])


@pytest.mark.parametrize("order", ORDERS, ids=" then ".join)
def test_both_move_the_numbers_in_either_order(order, numbers):
    count = ranks(order)
    both = numbers[count, order]
    for one in order:
        assert apart(both, numbers[count, (one,)])
