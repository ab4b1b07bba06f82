"""Knobs are settings below `fault`: of one run, and as an axis of a sweep."""

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, family_of


def test_a_sweep_over_a_knob_has_one_twin():
    specs = resolve(["scenario=corrupt_tokens", "fault.rows=0.1,0.9"])[1]
    assert sorted(spec.knobs.rows for spec in specs if spec.role is Role.FAULTY) == [0.1, 0.9]
    assert len({spec.run_id for spec in specs if spec.role is Role.TWIN and spec.seed == 0}) == 1
    assert len({spec.run_id for spec in specs}) == len(specs)


def test_a_knob_at_the_value_of_its_severity_is_the_same_run():
    factor = scenario("high_lr").knobs_of(scenario("high_lr").default_severity()).factor
    default, same, other = (
        family_of("high_lr", [0], overrides=words, roles=(Role.FAULTY,))[0].run_id
        for words in ((), (f"fault.factor={factor}",), ("fault.factor=3",))
    )
    assert default == same != other


@pytest.mark.parametrize(
    ("name", "knob", "allowed"),
    [
        ("high_lr_masked_by_decay", "factor=0", "over 0"),
        ("slow_divergence", "factor=0", "over 0"),
        ("weight_decay_too_high", "factor=-1", "over 0"),
        ("lr_jump", "factor=0", "over 0"),
        ("catastrophic_forgetting", "language_seed=-1", "0 or more"),
        ("data_replayed", "every=0", "1 or more"),
        ("late_finetune_divergence", "ramp=0", "1 or more"),
        ("query_projection_zeroed", "layer=7", "0 to 1"),
        ("residual_bypassed", "layer=-1", "0 to 1"),
        ("benign_batch_ramp", "until=0.4", "over fault.first"),
        ("benign_late_drop", "period=0", "1 or more"),
        ("benign_late_drop", "rows=-1", "0 or more"),
        ("benign_length_ramp", "shortest=0", "1 or more"),
        ("benign_mixture_change", "rows=-1", "0 or more"),
        ("sqrt_negative", "offset=nan", "a finite number"),
        ("corrupt_tokens", "rows=inf", "a finite number"),
    ],
)
def test_a_value_without_meaning_is_one_line(name, knob, allowed):
    with pytest.raises(InputError, match=rf"^fault\.{knob.partition('=')[0]}: \S+ is not allowed; allowed: {allowed}$"):
        family_of(name, [0], overrides=[f"fault.{knob}"])
