"""Overrides by name: types, ranges, knobs, and sweeps."""

from typing import get_args

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import OptimizerKind, Placement
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import RANGES, Dialect, Setup, SourceKind, get, replace, replaced
from trainwreck.scenarios.spec.overrides import compose, describe, field_type, sweep
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.scenario import Knobs, Severity


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("steps=37", 37),
        ("optimizer.lr=3e-4", 3e-4),
        ("optimizer.lr=1", 1.0),
        ("optimizer.clip=null", None),
        ("optimizer.clip=0.5", 0.5),
        ("optimizer.kind=sgd", OptimizerKind.SGD),
        ("optimizer.kind=SGD", OptimizerKind.SGD),
        ("model.placement=post", Placement.POST),
        ("model.bias=false", False),
        ("model.init.matrix_std=0.02", 0.02),
        ("data.text=some/file.txt", "some/file.txt"),
        ("precision.dynamic=true", True),
    ],
)
def test_an_override_has_the_declared_type_and_changes_nothing_else(override, value):
    path = override.partition("=")[0]
    setup, knobs = compose(Setup(), Knobs(), [override])
    assert get(setup, path) == value
    assert type(get(setup, path)) is type(value)
    assert setup == replace(Setup(), path, value)
    assert type(setup) is Setup
    assert knobs == Knobs()


def test_a_knob_is_set_below_fault():
    high_lr = scenario("high_lr")
    knobs = high_lr.knobs_of(Severity.CLEAR)
    setup, changed = compose(Setup(), knobs, ["fault.factor=4", "steps=50"])
    assert (changed.factor, changed.ramp_steps) == (4.0, knobs.ramp_steps)
    assert type(changed) is type(knobs)
    assert setup.steps == 50
    assert knobs.factor != 4.0  # the scenario's own stay as they are


def test_a_setting_given_twice_is_refused():
    with pytest.raises(InputError, match="setting: 'steps' is given twice; allowed: once"):
        compose(Setup(), Knobs(), ["steps=5", "tail=1", "steps=6"])
    with pytest.raises(InputError, match="setting: 'seed' is given twice"):
        list(sweep(["seed=1", "seed=range(3)"]))


def test_without_overrides_the_setup_is_handed_back():
    setup = Setup()
    assert compose(setup, Knobs())[0] is setup


def test_overrides_that_need_each_other():
    with pytest.raises(InputError, match=r"model\.vocab_size: 64"):
        compose(Setup(), Knobs(), ["data.source=text"])
    setup, _ = compose(Setup(), Knobs(), ["data.source=text", "model.vocab_size=256"])
    assert setup.data.source is SourceKind.TEXT


@pytest.mark.parametrize("path", RANGES)
def test_every_range_holds_at_both_ends(path):
    low, high, inclusive = RANGES[path]
    declared = field_type(Setup, path, path)
    kind = next(iter(set(get_args(declared)) - {type(None)}), declared)
    setup = replaced(Setup(), data__rows=64)  # a row for each rank
    if path == "adapters.rank":  # at most the width
        setup = replaced(setup, model__width=high, model__context=16)
    if path == "data.rare_words":  # each is the first of two tokens
        setup = replaced(setup, model__context=2 * high)
    if path.startswith("decoding."):
        setup = replaced(setup, objective=ObjectiveKind.DECODING, data__dialect=Dialect.REFRAIN)
    if path.startswith("routing."):
        setup = replaced(setup, model__experts=16)
    if path.startswith("preferences."):
        setup = replaced(setup, objective=ObjectiveKind.PREFERENCES, data__dialect=Dialect.PAIRS)
    if path.startswith("diffusion."):
        setup = replaced(setup, objective=ObjectiveKind.DIFFUSION, data__dialect=Dialect.WALK, model__causal=False)
    if path.startswith("retrieval."):
        setup = replaced(setup, objective=ObjectiveKind.RETRIEVAL, data__dialect=Dialect.FACTS)
    if path.startswith("transcription."):
        setup = bases.transcripts(setup)
    if path.startswith("modalities."):
        setup = replaced(setup, objective=ObjectiveKind.MODALITIES, data__dialect=Dialect.CAPTIONS)
    if path.startswith("policy."):
        setup = replaced(setup, objective=ObjectiveKind.POLICY, data__dialect=Dialect.TASKS, data__rows=10**4)
        setup = replaced(setup, model__value_head=True)
    below = kind(low - 1) if inclusive else kind(low)
    for value in (below, kind(high * 2 + 1)):
        with pytest.raises(InputError) as refusal:
            compose(setup, Knobs(), [f"{path}={value}"])
        assert str(refusal.value).startswith(f"{path}: ")
    assert get(compose(setup, Knobs(), [f"{path}={kind(high)}"])[0], path) == high


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("stesp=3", "did you mean 'steps'"),
        ("model.init.matrix=1", "did you mean 'matrix_std'"),
        ("fault.factor=1", "'fault.factor' is not allowed; allowed: none below fault, the scenario has no knobs"),
        ("model=3", "a group of settings"),
        ("model.init=3", "a group of settings"),
        ("steps=two", "steps: 'two' is not allowed; allowed: a whole number"),
        ("steps=2.5", "allowed: a whole number"),
        ("optimizer.clip=much", "allowed: a number or null"),
        ("model.bias=perhaps", "true or false"),
        ("optimizer.kind=adma", "optimizer.kind: 'adma'"),
        ("steps=1,2", "allowed: one value"),
        ("steps", "allowed: key=value"),
        ("=3", "setting ''"),
        ("steps=[", "allowed: key=value"),
        ("+steps=3", "without a prefix"),
        ("++steps=3", "without a prefix"),
        ("~steps", "without a prefix"),
        ("model.attention=flash", "model.attention: 'flash'"),
    ],
)
def test_a_wrong_override_is_one_line(override, message):
    with pytest.raises(InputError, match=message) as refusal:
        compose(Setup(), Knobs(), [override])
    assert "\n" not in str(refusal.value)


def test_types_in_words():
    assert describe(float | None) == "a number or null"
    assert describe(bool) == "true or false"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["steps=3"], [("steps=3",)]),
        (["steps=3,4"], [("steps=3",), ("steps=4",)]),
        (["seed=range(3)"], [("seed=0",), ("seed=1",), ("seed=2",)]),
        (["seed=range(2,8,3)"], [("seed=2",), ("seed=5",)]),
        (["a=x,y", "b=1", "c=choice(p,q)"], [(a, "b=1", c) for a in ("a=x", "a=y") for c in ("c=p", "c=q")]),
        ([], [()]),
    ],
)
def test_a_sweep_is_every_combination_in_order(words, expected):
    assert list(sweep(words)) == expected


def test_a_broken_sweep_is_one_line():
    with pytest.raises(InputError, match="allowed: key=value"):
        list(sweep(["seed=range("]))
