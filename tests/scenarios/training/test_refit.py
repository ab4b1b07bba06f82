"""Another model in mid-run: weights that both have go on, new ones start as at step 0."""

import pytest
import torch

from trainwreck.models.config import Placement
from trainwreck.models.parameters import carried_over, fits, initial_parameters, layout
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Variant
from trainwreck.scenarios.training.loop import train

STEP = 9


def test_weights_go_on_and_new_ones_start_fresh(tiny, make_job, equal_states) -> None:
    tiny = replaced(tiny, evaluation__average=0.9)
    change = At(STEP, Variant("model.qk_norm", True))
    plain, changed = (
        train([make_job(3, tiny, *changes)], keep={"run-3": [STEP, 20]})[0].states for changes in ((), (change,))
    )
    wider = replaced(tiny, model__qk_norm=True).model
    old, new = layout(tiny.model), layout(wider)
    before, after = (plan.views(states[STEP]["parameters"][None]) for plan, states in ((old, plain), (new, changed)))
    gains = [name for name in new.shapes if name not in old.shapes]
    assert gains == ["layer_0.qk_gain", "layer_1.qk_gain"]
    for name in old.shapes:
        assert torch.equal(before[name], after[name])
    for name in gains:
        assert torch.equal(after[name], torch.ones_like(after[name]))
        for moment in ("first", "second"):
            assert not new.views(changed[STEP][moment][None])[name].any()
    assert torch.equal(
        old.views(plain[STEP]["first"][None])["head.weight"], new.views(changed[STEP]["first"][None])["head.weight"]
    )
    assert changed[STEP]["average"].shape == changed[STEP]["parameters"].shape
    assert changed[STEP]["count"] == plain[STEP]["count"] == STEP
    assert (new.views(changed[20]["parameters"][None])["layer_0.qk_gain"] != 1).any()  # and it is trained


def test_a_run_entered_from_a_checkpoint_is_the_same(tiny, make_job, differing) -> None:
    job = make_job(3, tiny, At(STEP, Variant("model.placement", Placement.POST)))
    whole = train([job], keep={"run-3": [STEP - 1]})[0]
    late = train([job], enter={"run-3": (STEP - 1, whole.states[STEP - 1])})[0]
    assert late.trace["loss"].tolist() == whole.trace["loss"][STEP - 1 :].tolist()


def test_weights_of_another_shape_are_refused(tiny, make_job) -> None:
    with pytest.raises(ValueError, match="parameters of another shape are not allowed in mid-run"):
        train([make_job(3, tiny, At(STEP, Variant("model.width", 64)))])


def test_carried_over_by_name() -> None:
    from trainwreck.models.config import ModelConfig

    small = ModelConfig(layers=1, width=16, heads=2, context=16, vocab_size=16)
    deep = ModelConfig(layers=2, width=16, heads=2, context=16, vocab_size=16)
    old, new = layout(small), layout(deep)
    assert fits(old, new)
    assert not fits(old, layout(ModelConfig(layers=1, width=32, heads=2, context=16, vocab_size=16)))
    flat, fresh = initial_parameters(small, [1]), initial_parameters(deep, [2])
    made = new.views(carried_over(flat, old, new, fresh))
    assert torch.equal(made["head.weight"], old.views(flat)["head.weight"])
    assert torch.equal(made["layer_1.qkv.weight"], new.views(fresh)["layer_1.qkv.weight"])
    assert torch.equal(carried_over(carried_over(flat, old, new, fresh), new, old, flat), flat)
