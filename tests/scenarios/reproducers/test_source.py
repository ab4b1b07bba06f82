"""Functions as plain source: what surrounds them is put in, types come off, what has no plain form is refused."""

import dataclasses

import numpy as np
import pytest
import torch

from trainwreck.scenarios import shapes
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.reproducers.source import SHORTER, Harvest
from trainwreck.scenarios.reproducers.syntax import applied, definition, edited
from trainwreck.scenarios.reproducers.values import NotPlainError
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.spec.scenario import Knobs


@dataclasses.dataclass(kw_only=True)
class Share(Knobs):
    """For the functions below."""

    share: float = 0.25


@pytest.fixture
def harvest():
    (spec,) = family_of("label_noise", [0], roles=(Role.FAULTY,))
    return Harvest(spec.setup, scenario("label_noise"))


def test_what_surrounds_a_function_is_put_in(harvest):
    knobs, setup, ids = Share(), harvest.base, np.arange(3, 7)

    def edit(batch: int, since: float = 2.0) -> float:
        """What it does. And more."""
        known: float = batch * knobs.share  # beside it
        return known + setup.model.width + since + ids[0]

    assert harvest.function(edit) == "edit"
    assert harvest.functions["edit"] == (
        "def edit(batch, since=2.0):  # what it does. And more\n"
        "    known = batch * 0.25  # beside it\n"
        "    return known + 48 + since + np.arange(3, 7)[0]\n"
    )


def test_two_functions_of_one_name_keep_apart(harvest):
    def made(factor):
        def edit(x):
            return x * factor

        return edit

    assert [harvest.function(made(f)) for f in (2, 3, 2)] == ["edit", "edit_again", "edit"]
    assert "def edit_again(x):\n    return x * 3\n" in harvest.functions["edit_again"]


def test_a_lambda_becomes_what_it_returns(harvest):
    knobs = Share()
    twice = lambda rate, since: rate * knobs.share + since  # noqa: E731
    assert harvest.call(twice, "rate", "step - ONSET") == "rate * 0.25 + step - ONSET"


def test_settings_that_differ_become_a_constant(harvest):
    whole = replaced(harvest.base, data__language_seed=5)

    def edit(seed):
        return whole, harvest

    with pytest.raises(NotPlainError, match="'harvest', a Harvest"):
        harvest.function(edit)
    assert harvest.constants == {"WHOLE": 'SimpleNamespace(**{**vars(HEALTHY), **{"language_seed": 5}})'}


def test_a_large_tensor_is_refused(harvest):
    drawn = torch.randn(300)

    def edit(state, earlier):
        return {**state, "parameters": drawn}

    with pytest.raises(NotPlainError, match="'drawn', a Tensor"):
        harvest.function(edit)


def test_functions_from_elsewhere_are_refused(harvest):
    def edit(batch):
        return definition(batch)

    with pytest.raises(NotPlainError, match="definition is not in the plain program"):
        harvest.function(edit)


def test_inner_edits_give_way():
    assert edited("a.b + c", 0, 7, [(0, 3, "1"), (0, 1, "x"), (6, 7, "2")]) == "1 + 2"


def test_a_signature_asks_a_dict(harvest):
    name = harvest.function(type(harvest.entry).signature, {"self": harvest.entry})
    text = harvest.functions[name]
    assert text.startswith("def signature(run, healthy, onset):\n")
    assert 'plateaus_above(run["loss"], healthy["loss"], margin=0.4)' in text
    assert "evaluations(run)[1]" in text
    assert harvest.signals == {"loss"}
    assert harvest.known == {"evaluations"}


@pytest.mark.parametrize("name", SHORTER)
def test_shorter_functions_are_the_shapes(name):
    space = {"np": np}
    exec(SHORTER["smooth"] + SHORTER[name], space)
    mine, theirs = space[name], getattr(shapes, name)
    draw = np.random.default_rng(0)
    for bad in (None, 30, 59):
        y = draw.random(60).astype(np.float32)
        if bad is not None:
            y[bad] = np.inf
        if name == "_gap":
            assert np.isclose(mine(y, y[::-1], 25, 35), theirs(y, y[::-1], 25, 35), atol=1e-6)
        elif name == "smooth":
            assert np.allclose(mine(y), theirs(y))
            assert np.allclose(mine(y, 3), theirs(y, 3))
        elif name == "jumps_in_one_step":
            assert [mine(y, 30, r) for r in (0.5, 5)] == [theirs(y, 30, r) for r in (0.5, 5)]
        elif name == "plateaus_above":
            below = np.linspace(2, 0.1, 70)
            assert [mine(y, below, m) for m in (-0.5, 0, 0.5)] == [theirs(y, below, m) for m in (-0.5, 0, 0.5)]
        else:
            assert np.array_equal(mine(np.median, y.reshape(12, 5)), theirs(np.median, y.reshape(12, 5)))


def test_a_method_stands_at_the_margin(harvest):
    node, text = definition(type(harvest.entry).signature)
    assert applied(text, node, []).startswith("def signature(self, run: Trace")
