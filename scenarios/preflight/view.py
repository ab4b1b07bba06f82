"""A scenario's run as a subject: its stacked model as an nn.Module, its batch, its training step.

What the checks see is what the training loop does: the forward pass and the step are a bundle's own, on
a bundle of one, at the last moment before the fault shows: step 0, or the onset.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainwreck.models.config import Format
from trainwreck.models.loss import weighted_mean
from trainwreck.models.parameters import layout
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import LossForm, replaced
from trainwreck.scenarios.data.sources.selection import end_token, source, source_key
from trainwreck.scenarios.preflight.subject import Preflight, share
from trainwreck.scenarios.spec.faults import At, Setting, State
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.run_spec import RunSpec
from trainwreck.scenarios.training import telemetry
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.evaluation import held_out_logits
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import transcription
from trainwreck.scenarios.training.step import train_step

IGNORED = -100
TIED = ("embedding.weight", "head.weight")


class Run(nn.Module):
    """One run of the catalogue at a step, with a leading run axis of 1 put on and taken off.

    Parameters bear their names of `models.parameters`; dropout is a module, so that it can be set to 0.
    """

    def __init__(self, job: Job, state: State, step: int) -> None:
        super().__init__()
        self.job, self.state, self.at = job, state, step
        self.taken = 0
        setup = job.segment(step).setup
        self.dropout = nn.Dropout(setup.dropout)
        for name, value in self.bundle().plan.views(state["parameters"][None]).items():
            *path, last = name.split(".")
            home: nn.Module = self
            for part in path:
                if not hasattr(home, part):
                    home.add_module(part, nn.Module())
                home = getattr(home, part)
            home.register_parameter(last, nn.Parameter(value[0].clone()))
        if setup.model.tied:
            if not hasattr(self, "head"):
                self.add_module("head", nn.Module())
            self.get_submodule("head").register_parameter("weight", self.get_parameter(TIED[0]))

    def weights(self) -> list[Tensor]:
        """The parameters in the order of the flat buffer."""
        named = dict(self.named_parameters())
        return [named[slot.name] for slot in self.bundle().plan.slots]

    def bundle(self) -> Bundle:
        """A bundle of this run alone, as the run is now."""
        job = self.job
        if self.dropout.p != job.segment(self.at).setup.dropout:
            changes = (*job.changes, At(self.at, Setting("dropout", self.dropout.p)))
            job = dataclasses.replace(job, changes=changes)
        return Bundle([job], [self.state], self.at)

    def forward(self, input_ids: Tensor, documents: Tensor) -> Tensor:
        """Logits [B, T, V]."""
        bundle = self.bundle()
        named = {slot.name: w[None] for slot, w in zip(bundle.plan.slots, self.weights(), strict=True)}
        # Where weights are parametrized, a bundle makes those that compute of one flat leaf.
        parametrized = "flat" in bundle.leaves
        bundle.leaves = {"flat": torch.cat([w.flatten(1) for w in named.values()], 1)} if parametrized else named
        rows = input_ids[None], input_ids[None], torch.ones_like(input_ids[None], dtype=torch.float32), documents[None]
        bundle.held_out = rows
        if bundle.program.objective is ObjectiveKind.TRANSCRIPTION:
            logits = transcription.logits_of_rows(bundle, self.at, rows)
        else:
            logits = torch.cat([part for part, _ in held_out_logits(bundle, self.at)], 1)
        return logits[0].view(*input_ids.shape, -1)

    @torch.no_grad()
    def flat(self) -> Tensor:
        """The parameters as the flat buffer has them, [P]."""
        return torch.cat([w.reshape(-1) for w in self.weights()])


def one_step(model: nn.Module, inputs: dict[str, Tensor], targets: Tensor) -> float:
    """One step of the training loop on a `Run`, its optimizer state included; its loss.

    The learning rate is the run's own times `share`: some healthy runs train at rates under which
    nothing is memorised.
    """
    assert isinstance(model, Run), "a step of a view"
    model.state = {**model.state, "parameters": model.flat()}
    bundle, step = model.bundle(), min(model.at + model.taken, model.job.setup.steps - 1)
    rate = model.job.learning_rate(step) * share(model.taken)
    own = bundle.inputs(range(model.at, model.at + 1))
    ages = torch.from_numpy(telemetry.ages(inputs["documents"][None, None].numpy())).view(1, 1, -1)
    block = dataclasses.replace(
        own,
        inputs=inputs["input_ids"][None, None],
        targets=targets.clamp(min=0)[None].view(1, 1, -1),
        weights=(targets != IGNORED).to(own.weights.dtype).view(1, 1, -1),
        documents=inputs["documents"][None, None],
        ages=ages,
        lr=torch.full_like(own.lr, rate),
    )
    bundle.recorder = telemetry.Recorder(bundle.setup.model, bundle.plan, 1, 1, bundle.device, bundle.impl)
    train_step(bundle, block, 0, step)
    loss = float(bundle.recorder.read(1)["loss"].reshape(-1)[0])
    model.taken += 1
    model.state = bundle.states()[0]
    with torch.no_grad():
        new = bundle.plan.views(model.state["parameters"][None])
        for name, parameter in model.named_parameters():
            parameter.copy_(new[name][0])
    return loss


def own_loss(bundle: Bundle, logits: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of the scored targets by the form that the run has."""
    nll = bundle.token_losses(logits.flatten(0, -2)[None], targets.clamp(min=0).view(1, -1)).nll_NM
    return weighted_mean(nll, (targets != IGNORED).to(nll.dtype).view(1, -1))[0]


def views(specs: Sequence[RunSpec], step: int) -> list[Preflight]:
    """Subjects of runs as they stand before a step; trained up to there side by side, resumes at it included.

    Of a run of several ranks: the first rank's model, and the whole batch, in one process. What is wrong between
    ranks is not seen there.
    """
    jobs = [spec.job() for spec in specs]
    if step == 0 and not any(job.resumes(0) for job in jobs):
        states = [fresh_state(job) for job in jobs]
    else:  # kept before the step, after what a resume did to it
        keep: dict[str, Iterable[int]] = {job.run_id: [step] for job in jobs}
        states = [result.states[step] for result in train(jobs, keep=keep, stop=step + 1, record=False)]
    alone = [dataclasses.replace(job, setup=replaced(job.setup, distributed__ranks=1)) for job in jobs]
    return [_view(job, state, step) for job, state in zip(alone, states, strict=True)]


def _view(job: Job, state: State, step: int) -> Preflight:
    setup = job.segment(step).setup
    batch = job.batches(range(step, step + 1)).at(0)
    inputs, targets, weights, documents = (
        torch.from_numpy(np.ascontiguousarray(x)) for x in (batch.inputs, batch.targets, batch.weights, batch.documents)
    )
    fp32, mixed = _precisions(job, state, step)
    end = end_token(setup.data)
    fills = setup.objective is ObjectiveKind.DIFFUSION
    # Padding's id, the mask's and a rare word's is a token's like any other.
    pads = setup.data.padded or setup.data.padding_every or setup.data.rare_words or end is not None or fills
    run = Run(job, state, step)
    grown = setup.growth.rows == setup.model.vocab_size
    return Preflight(
        run,
        {"input_ids": inputs, "documents": documents},
        targets.masked_fill(weights == 0, IGNORED),
        loss=None if setup.loss is LossForm.LOG_SUM_EXP else partial(own_loss, run.bundle()),
        step=one_step,
        vocab_size=setup.model.vocab_size if pads or grown else source(source_key(setup.data)).vocabulary,
        ignore_index=IGNORED,
        shift=None if fills else 1,
        end=end,
        tied=TIED if job.setup.model.tied else None,
        frozen=_frozen(job, step),
        trained=step > 0,
        mixed=mixed,
        fp32=fp32,
        loss_scale=float(state["loss_scale"]),
        routed=setup.model.experts > 0,
    )


def _frozen(job: Job, step: int) -> tuple[str, ...]:
    """Parameters that the setup itself has frozen by a step."""
    segment = Job("", job.seed, job.setup).segment(step)
    reaches, plan = segment.updates.reaches_NP, layout(segment.setup.model)
    if reaches is None:
        return ()
    return tuple(slot.name for slot in plan.slots if not reaches[:, slot.start : slot.stop].any())


def _precisions(job: Job, state: State, step: int) -> tuple[Run | None, Any]:
    """The run in full precision, None where it is; and in low precision: its own, or bfloat16."""
    setup = job.segment(step).setup
    if setup.objective is ObjectiveKind.TRANSCRIPTION:  # full precision alone, so autocast from outside
        return None, torch.bfloat16

    def with_(*settings: Setting) -> Run:
        changes = (*job.changes, *(At(step, setting) for setting in settings))
        return Run(dataclasses.replace(job, changes=changes), state, step)

    if setup.precision.format is Format.FP32 and setup.model.attention == "reference":
        return None, with_(Setting("precision.format", Format.BF16))
    full = with_(Setting("precision.format", Format.FP32), Setting("model.attention", "reference"))
    return full, Run(job, state, step)
