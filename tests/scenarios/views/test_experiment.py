"""A scenario trained in Python: the same runs as the command's, as traces."""

import copy
import doctest

import numpy as np
import pytest
from matplotlib.figure import Figure

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.data.batches import entropy_floor
from trainwreck.scenarios.spec.run_spec import family_of
from trainwreck.scenarios.training.loop import train
from trainwreck.scenarios.views import session
from trainwreck.scenarios.views.session import run

TINY = ("steps=60", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4")


@pytest.fixture(scope="module")
def wreck():
    return run("mask_missing", *TINY, seed=2)


def test_the_example_runs():
    assert doctest.testmod(session, raise_on_error=True).attempted > 0


def test_the_traces_are_those_of_the_runs(wreck):
    specs = family_of("mask_missing", [2], overrides=TINY)
    traces = [result.trace for result in train([spec.job() for spec in specs])]
    assert list(wreck.traces) == ["faulty", "twin", "cured"]
    for trace, again in zip(wreck.traces.values(), traces, strict=True):
        assert all(np.array_equal(trace[name], values, equal_nan=True) for name, values in again.signals.items())
    assert (wreck.onset, wreck.cure_step) == (specs[0].onset, specs[2].cure_step)
    assert wreck.signature is specs[0].entry.holds(traces[0], traces[1], specs[0].onset)
    assert wreck.floor == entropy_floor(specs[0].setup)
    assert (wreck.scenario, wreck.severity, wreck.seed) == ("mask_missing", "", 2)


def test_a_run_does_not_depend_on_which_others_are_asked_for(wreck):
    alone = run("mask_missing", *TINY, seed=2, roles=["twin"])
    assert np.array_equal(alone["twin"]["loss"], wreck["twin"]["loss"])
    assert alone.signature is alone.onset is alone.cure_step is None
    with pytest.raises(InputError, match="role: 'faulty' is not allowed; allowed: twin"):
        alone["faulty"]


def test_what_the_losses_of_runs_on_rewards_are_in(wreck):
    assert repr(wreck).endswith(" nats")
    rewarded = copy.deepcopy(wreck)
    for trace in rewarded.traces.values():
        trace.objective = "policy"
    assert repr(rewarded).endswith(" (1 less the mean reward)")


def test_a_look_alike_has_neither_signature_nor_cure():
    benign = run("benign_single_spike", *TINY)
    assert list(benign.traces) == ["faulty", "twin"]
    assert benign.signature is benign.cure_step is None


def test_panels_are_the_signals_asked_for(wreck):
    def titles(figure):
        assert isinstance(figure, Figure)
        return [axis.get_title(loc="left").partition(" (")[0] for axis in figure.axes]

    assert titles(wreck.figure()) == ["loss", "grad norm", "attention mass future, largest layer"]
    assert titles(wreck.figure("position_loss", "lr")) == ["position loss, early less late", "lr"]
    with pytest.raises(InputError, match="signal: 'los' is not allowed; did you mean 'loss'"):
        wreck.figure("los")


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (("mask_mising",), {}, "scenario: 'mask_mising' is not allowed; did you mean 'mask_missing'"),
        (("high_lr",), {"severity": "claer"}, "severity: 'claer' is not allowed; did you mean 'clear'"),
        (("high_lr",), {"size": "huge"}, "size: 'huge' is not allowed"),
        (("high_lr",), {"roles": ["fault"]}, "role: 'fault' is not allowed"),
        (("high_lr",), {"roles": []}, "roles: none is not allowed for high_lr"),
        (("benign_single_spike",), {"roles": ["cured"]}, "roles: cured is not allowed for benign_single_spike"),
        (("mask_missing",), {"severity": "clear"}, "no scale"),
        (("high_lr", "step=3"), {}, "step"),
    ],
)
def test_what_is_not_allowed(words, options, message):
    with pytest.raises(InputError, match=message):
        run(*words, **options)
