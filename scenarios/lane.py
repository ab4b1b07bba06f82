"""Runs that share a program, stepped as one: every tensor has a leading run dimension."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.schema import BY_NAME, Axis
from trainwreck.kernels.cross_entropy import cross_entropy
from trainwreck.kernels.norms import segment_statistics
from trainwreck.kernels.random import generator
from trainwreck.kernels.selection import choose
from trainwreck.models import gpt, optim
from trainwreck.models.loss import weighted_mean
from trainwreck.models.parameters import Layout, layout
from trainwreck.models.wiring import Updates, Wiring
from trainwreck.scenarios import telemetry
from trainwreck.scenarios.batches import Batch, training_block, validation
from trainwreck.scenarios.faults import State
from trainwreck.scenarios.job import Job, extras


@dataclass
class Feed:
    """Inputs of a block of steps on the device: token arrays [S, N, ...], learning rates [S, N].

    `host` keeps, for each run, the signals that need no device.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    documents: Tensor
    ages: Tensor
    lr: Tensor
    host: list[dict[str, np.ndarray]]


CPU = torch.device("cpu")
T = TypeVar("T", Wiring, Updates)


@dataclass(frozen=True)
class Place:
    """Where a lane runs. impl: of the kernels; None for the rule of `trainwreck.kernels.selection`."""

    device: torch.device = CPU
    dtype: torch.dtype = torch.float32
    impl: str | None = None


class Lane:
    """N runs of one program. Build it from their states, run blocks, take the states out again."""

    def __init__(self, jobs: list[Job], states: list[State], step: int, place: Place | None = None):
        place = place or Place()
        self.jobs, self.device = jobs, place.device
        self.segments = [job.segment(step) for job in jobs]
        self.setup = self.segments[0].setup  # what the program fixes is the same in all
        self.program = self.segments[0].program
        self.plan: Layout = layout(self.setup.model)

        def column(name: str) -> Tensor:
            return torch.stack([state[name] for state in states]).to(place.device)

        self.flat = column("parameters")
        self.impl = choose(place.impl, self.flat)
        self.moments = optim.Moments(column("count"), column("first"), column("second"))
        self.wiring = self._stacked([s.wiring for s in self.segments], Wiring)
        self.updates = self._stacked([s.updates for s in self.segments], Updates)
        self.carried = self._carried(states)
        if extras(self.wiring):  # one leaf: the weights that compute are made of it each time
            self.leaves = {"flat": self.flat.detach().requires_grad_()}
        else:
            self.leaves = {k: v.detach().requires_grad_() for k, v in self.plan.views(self.flat).items()}
        self.scaler = self._scaler(column("loss_scale"), column("good_steps"))
        self.settings = self._settings()
        self.decay_mask = self.plan.decay_mask.to(place.device, place.dtype)
        if self.updates.decays_NP is not None:
            self.decay_mask = self.updates.decays_NP
        self.dropout_rate = self._per_run([s.setup.dropout for s in self.segments])
        self.z_loss = self._per_run([s.setup.z_loss for s in self.segments])
        self.tables = self._tables()
        self.held_out = self._held_out()
        self.recorder: telemetry.Recorder | None = None

    def states(self) -> list[State]:
        """The state of each run, copied."""
        names = {
            "parameters": self.flat,
            "first": self.moments.first,
            "second": self.moments.second,
            "count": self.moments.count,
            "loss_scale": self.scaler.scale,
            "good_steps": self.scaler.good_steps,
        }
        if self.carried is not None:
            names["carried"] = self.carried
        return [{k: v[i].detach().clone() for k, v in names.items()} for i in range(len(self.jobs))]

    def feed(self, steps: range) -> Feed:
        """Data, learning rates and host signals of a block of steps."""
        batches = [run_batches(job, steps) for job in self.jobs]
        n, table = len(self.jobs), self.setup.model.vocab_size
        for batch in batches:
            # Stacked tables are one: an id past a run's own would read its neighbour's.
            if max(batch.inputs.max(), batch.targets.max()) >= table or batch.inputs.min() < 0:
                raise InputError(
                    f"model.vocab_size: {table} is not allowed with this data; allowed: over every id in it"
                )

        def stack(arrays: list[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.stack(arrays, 1)).to(self.device)

        host = [
            telemetry.input_signals(batch, self.setup.model.vocab_size)
            | {"lr": np.array([job.learning_rate(s) for s in steps]), "tokens_per_second": clock(job, steps)}
            for job, batch in zip(self.jobs, batches, strict=True)
        ]
        return Feed(
            inputs=stack([b.inputs for b in batches]),
            targets=stack([b.targets for b in batches]).view(len(steps), n, -1),
            weights=stack([b.weights for b in batches]).view(len(steps), n, -1).to(self.flat.dtype),
            documents=stack([b.documents for b in batches]),
            ages=stack([telemetry.ages(b.documents) for b in batches]).view(len(steps), n, -1),
            lr=torch.from_numpy(np.stack([h["lr"] for h in host], 1)).to(self.device, self.flat.dtype),
            host=host,
        )

    def run(self, steps: range, record: bool) -> tuple[list[dict[str, np.ndarray]], dict[int, np.ndarray]]:
        """Train a block of steps. Returns each run's signals [S] or [S, K], and validation losses [N] by step."""
        feed = self.feed(steps)
        if record and self.recorder is None:
            self.recorder = telemetry.Recorder(
                self.setup.model, self.plan, len(self.jobs), len(steps), self.device, self.impl
            )
        losses: list[tuple[int, Tensor]] = []
        every, last = self.setup.evaluation.every, self.setup.steps - 1
        for index, step in enumerate(steps):
            if record and (step % every == 0 or step == last):
                losses.append((step, self.validate(step)))
            self.step(feed, index, step)
        evaluated = {step: value.cpu().numpy() for step, value in losses}
        if self.recorder is None:
            return [], evaluated
        block = self.recorder.read(len(steps))
        signals = [
            {k: v[:, i, 0] if BY_NAME[k].axis is Axis.SCALAR else v[:, i] for k, v in block.items()} | feed.host[i]
            for i in range(len(self.jobs))
        ]
        return signals, evaluated

    def step(self, feed: Feed, index: int, step: int) -> None:
        """One training step of every run. No value is asked of the device."""
        probe = gpt.Probe() if self.recorder is not None else None
        dropout = None
        if self.program.dropout:
            dropout = gpt.Dropout([job.seed for job in self.jobs], step, self.dropout_rate)
        logits = gpt.forward(
            self.parameters(),
            feed.inputs[index],
            feed.documents[index],
            self.tables,
            self.setup.model,
            self.program.format,
            dropout,
            probe,
            self.impl,
            self._noise(step),
        )
        weights = feed.weights[index]
        nll, log_z, largest = cross_entropy(logits, feed.targets[index], largest=probe is not None, impl=self.impl)
        loss = objective = weighted_mean(nll, weights)
        if self.program.z_loss:
            objective = loss + self.z_loss * weighted_mean(log_z**2, weights)
        scale = self.scaler.scale
        factor = scale if self.program.scaled else torch.ones_like(loss)
        parts = torch.autograd.grad(objective, list(self.leaves.values()), grad_outputs=factor)
        with torch.no_grad():
            grads = torch.cat([part.flatten(1) for part in parts], 1)
            if self.program.scaled:
                grads.div_(scale.unsqueeze(1))
            grads = self.updates.arrive(grads, self.carried)
            if self.carried is not None:
                self.carried = grads.clone()
            seen = segment_statistics(grads, self.plan.bounds, nonfinite=self.recorder is not None, impl=self.impl)
            layer_norm = seen.norm_NS
            norm = torch.linalg.vector_norm(layer_norm, dim=1)
            overflow = ~torch.isfinite(norm)
            coefficient = optim.clip_coefficient(norm, self.settings.clip)
            values = None
            if self.recorder is not None and probe is not None:
                assert largest is not None
                assert seen.nonfinite_N is not None
                values = self.recorder.before_update(
                    telemetry.StepFacts(
                        loss=loss.detach(),
                        nll_NM=nll.detach(),
                        weight_NM=weights,
                        age_NM=feed.ages[index],
                        log_z_NM=log_z.detach(),
                        largest_NM=largest,
                        grad_norm=norm,
                        clip_coef=coefficient,
                        loss_scale=scale,
                        skipped=overflow if self.program.scaled else torch.zeros_like(norm),
                        layer_grad_norm=layer_norm,
                        nonfinite_grads=seen.nonfinite_N,
                        flat=self.computing(),
                        probe=probe,
                    )
                )
            grads.mul_(coefficient.unsqueeze(1))
            self.settings.lr = feed.lr[index]
            update = optim.step(
                self.program.optimizer,
                self.flat,
                grads,
                self.moments,
                self.settings,
                self.decay_mask,
                overflow if self.program.scaled else None,
                self.updates,
            )
            if self.program.scaled:
                self.scaler.update(overflow)
            if self.recorder is not None and values is not None:
                self.recorder.write(index, values, update)

    def parameters(self) -> dict[str, Tensor]:
        """The weights that compute, by name."""
        if "flat" not in self.leaves:
            return self.leaves
        return self.plan.views(self.wiring.apply(self.leaves["flat"]))

    def computing(self) -> Tensor:
        """The weights that compute, flat, [N, P]."""
        return self.wiring.apply(self.flat)

    @torch.no_grad()
    def validate(self, step: int = 0) -> Tensor:
        """Mean loss on the held-out rows, [N], without dropout."""
        parts = self.held_out_logits(step)
        nll = torch.cat([cross_entropy(logits, targets, impl=self.impl).nll_NM for logits, targets in parts], 1)
        return weighted_mean(nll, self.held_out[2].flatten(1))

    def held_out_logits(self, step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits [N, M, V] and targets [N, M] of the held-out rows, as many rows at a time as a batch has."""
        inputs, targets, _, documents = self.held_out
        rows = self.setup.data.rows
        params = self.parameters()
        for a in range(0, inputs.shape[1], rows):
            part = slice(a, a + rows)
            logits = gpt.forward(
                params,
                inputs[:, part],
                documents[:, part],
                self.tables,
                self.setup.model,
                self.program.format,
                impl=self.impl,
                noise=self._noise(step),
            )
            yield logits, targets[:, part].flatten(1)

    def _noise(self, step: int) -> gpt.Noise | None:
        return None if self.tables.noise_N is None else gpt.Noise([job.seed for job in self.jobs], step)

    def _carried(self, states: list[State]) -> Tensor | None:
        """Gradients not cleared so far, [N, P], where some run keeps them."""
        if self.updates.kept_N is None:
            return None
        return torch.stack([s.get("carried", torch.zeros_like(s["parameters"])) for s in states]).to(self.device)

    def _stacked(self, parts: list[T], kind: type[T]) -> T:
        """Optional tensors of all runs on the device; which ones there are is the same in all."""
        names = extras(parts[0])
        return kind(**{name: self._moved(torch.cat([getattr(part, name) for part in parts])) for name in names})

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, self.flat.dtype if tensor.is_floating_point() else tensor.dtype)

    def _per_run(self, values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=self.flat.dtype, device=self.device)

    def _settings(self) -> optim.Settings:
        optimizers = [s.setup.optimizer for s in self.segments]
        return optim.Settings(
            lr=self._per_run([o.lr for o in optimizers]),
            beta1=self._per_run([o.beta1 for o in optimizers]),
            beta2=self._per_run([o.beta2 for o in optimizers]),
            eps=self._per_run([o.eps for o in optimizers]),
            weight_decay=self._per_run([o.weight_decay for o in optimizers]),
            clip=self._per_run([float("inf") if o.clip is None else o.clip for o in optimizers]),
        )

    def _scaler(self, scale: Tensor, good_steps: Tensor) -> optim.LossScaler:
        precisions = [s.setup.precision for s in self.segments]
        return optim.LossScaler(
            scale=scale,
            good_steps=good_steps,
            dynamic=torch.tensor([p.dynamic for p in precisions], device=self.device),
            interval=self._per_run([p.growth_interval for p in precisions]),
            minimum=self._per_run([p.smallest_scale for p in precisions]),
            maximum=self._per_run([p.largest_scale for p in precisions]),
        )

    def _tables(self) -> gpt.Tables:
        parts = [s.tables for s in self.segments]

        def cat(name: str) -> Tensor:
            return torch.cat([getattr(part, name) for part in parts]).to(self.device)

        wide = self.flat.dtype == torch.float64
        rotary = torch.complex128 if wide else torch.complex64
        return gpt.Tables(
            allowed_NTS=cat("allowed_NTS"),
            documents_N=cat("documents_N"),
            scale_N=cat("scale_N").to(self.flat.dtype),
            rotary_q_NTK=cat("rotary_q_NTK").to(rotary),
            rotary_k_NTK=cat("rotary_k_NTK").to(rotary),
            **{name: self._moved(cat(name)) for name in extras(parts[0])},
            leaky=self.program.leaky,
            causal=self.program.causal,
        )

    def _held_out(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        batches = [validation(s.setup)[0] for s in self.segments]
        inputs, targets, weights, documents = (
            torch.from_numpy(np.stack([getattr(b, name) for b in batches])).to(self.device)
            for name in ("inputs", "targets", "weights", "documents")
        )
        return inputs, targets, weights.to(self.flat.dtype), documents


def run_batches(job: Job, steps: range) -> Batch:
    """The batches of one run for a range of steps within a segment, its data faults applied."""
    setup = job.segment(steps.start).setup
    block = training_block(setup, job.seed, steps)
    active = job.active(steps.start)
    if not active:
        return block
    changed = []
    for index, step in enumerate(steps):
        batch = block.at(index)
        for at in active:
            batch = at.change.batch(batch, step, at.step, job.seed)
        changed.append(batch)
    return Batch(*(np.stack([getattr(b, k) for b in changed]) for k in ("inputs", "targets", "weights", "documents")))


def clock(job: Job, steps: range) -> np.ndarray:
    """Tokens per second of each step on a modelled clock, [S].

    Six operations a weight and token at 1e11 a second, three per cent of jitter from the seed, and
    a pause as long as four steps where the run resumes from a checkpoint.
    """
    setup = job.segment(steps.start).setup
    tokens = setup.data.rows * setup.model.context
    seconds = tokens * 6 * layout(setup.model).size / 1e11
    jitter = np.array([generator(job.seed, "clock", s).standard_normal() for s in steps])
    taken = np.array([job.seconds(1.0, s) for s in steps])
    rate: np.ndarray = tokens / (seconds * np.exp(0.03 * jitter) * taken)
    return rate
