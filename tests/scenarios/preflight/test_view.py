"""A scenario's run as the checks see it is the run that the training loop trains."""

import numpy as np
import pytest
import torch

from trainwreck.scenarios.preflight import view as module
from trainwreck.scenarios.preflight.view import IGNORED, one_step, views
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train

SMALL = (
    "steps=24", "model.layers=2", "model.width=16", "model.heads=2", "model.context=32", "data.rows=4",
    "evaluation.rows=4",
)  # fmt: skip


def view(spec, step):
    return views([spec], step)[0]


def spec_of(name, role=Role.FAULTY, seed=3, more=()):
    return family_of(name, [seed], overrides=(*SMALL, *more), roles=(role,))[0]


@pytest.mark.parametrize(
    "name", ["mask_missing", "corrupt_tokens", "stale_optimizer_state", "high_lr", "speech_misaligned_transcripts"]
)
@pytest.mark.parametrize("role", [Role.FAULTY, Role.TWIN])
def test_a_step_of_the_view_is_the_loops_to_the_bit(name, role, monkeypatch):
    monkeypatch.setattr(module, "share", lambda step: 1.0)
    faulty, spec = spec_of(name), spec_of(name, role)
    for step in (0, faulty.onset):
        job = spec.job()
        made = view(spec, step)
        loss = one_step(made.model, made.inputs, made.targets)
        result = train([job], keep={job.run_id: [step + 1]}, stop=step + 2)[0]
        assert np.float32(loss) == result.trace["loss"][step]
        assert torch.equal(made.model.flat(), result.states[step + 1]["parameters"])
        assert torch.equal(made.model.state["second"], result.states[step + 1]["second"])


def test_the_loss_of_the_view_is_the_loops():
    spec = spec_of("no_warmup", more=("dropout=0.0",))
    made = view(spec, 0)
    trace = train([spec.job()], stop=1)[0].trace
    with torch.no_grad():
        loss = float(made.objective(made.model, made.inputs, made.targets))
    assert loss == pytest.approx(float(trace["loss"][0]), rel=1e-6)
    assert int((made.targets == IGNORED).sum()) > 0  # what the source does not score


def test_gradients_of_the_view_are_those_of_the_step():
    spec = spec_of("no_warmup")
    made = view(spec, 0)
    _, grads = made.gradients(made.model)
    norm = torch.stack([g.norm() for g in grads.values()]).norm()
    assert float(norm) == pytest.approx(float(train([spec.job()], stop=1)[0].trace["grad_norm"][0]), rel=1e-4)
    assert set(grads) == {name for name, _ in made.model.named_parameters()}


def test_dropout_is_a_module_that_can_be_set_to_nothing(monkeypatch):
    monkeypatch.setattr(module, "share", lambda step: 1.0)
    made = view(spec_of("no_warmup", more=("dropout=0.5",)), 0)
    plain = view(spec_of("no_warmup"), 0)
    assert one_step(made.copy(), made.inputs, made.targets) != one_step(plain.copy(), plain.inputs, plain.targets)
    made.model.dropout.p = 0.0
    assert one_step(made.copy(), made.inputs, made.targets) == one_step(plain.copy(), plain.inputs, plain.targets)


def test_low_precision_is_the_runs_own_or_bfloat16():
    healthy = view(spec_of("no_warmup"), 0)
    assert healthy.fp32 is None
    assert healthy.mixed.job.segment(0).setup.precision.format.value == "bf16"
    half = view(spec_of("no_warmup", more=("precision.format=fp16", "precision.loss_scale=64.0")), 0)
    assert half.fp32.job.segment(0).setup.precision.format.value == "fp32"
    assert half.mixed.job.segment(0).setup.precision.format.value == "fp16"
    assert half.loss_scale == 64.0
    kernel = spec_of("fp16_attention_overflow")
    made = view(kernel, kernel.onset)
    assert made.fp32.job.segment(kernel.onset).setup.model.attention == "reference"
    assert made.mixed.job.segment(kernel.onset).setup.model.attention == "fp16_scores"


def test_low_precision_of_transcripts_is_autocast():
    made = view(spec_of("speech_misaligned_transcripts"), 0)
    assert (made.fp32, made.mixed) == (None, torch.bfloat16)


def test_of_several_ranks_the_first_ones_model_is_seen_in_one_process():
    """Resumed or not: at step 0, and in mid-run with the weights that training left there."""
    spec = spec_of("ddp_same_data", more=("distributed.ranks=2",))
    step = 3
    made = view(spec, step)
    job = spec.job()
    state = train([job], keep={job.run_id: [step]}, stop=step + 1)[0].states[step]
    assert torch.equal(made.model.flat(), state["parameters"])
    assert np.isfinite(one_step(made.model, made.inputs, made.targets))
