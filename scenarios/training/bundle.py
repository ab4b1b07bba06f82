"""Runs that share a program, stepped as one: every tensor has a leading run dimension."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainwreck.evaluation.dataset.schema import BY_NAME, Axis
from trainwreck.kernels.cross_entropy import TokenLosses, cross_entropy, naive
from trainwreck.kernels.norms import segment_statistics
from trainwreck.kernels.random import SEED_LIMIT, generator
from trainwreck.kernels.selection import choose
from trainwreck.models import gpt, optim
from trainwreck.models.config import Norm
from trainwreck.models.loss import smoothed, weighted_mean
from trainwreck.models.parameters import Layout, layout, norm_names
from trainwreck.models.parametrization import Parametrization, Updates
from trainwreck.models.probe import Probe
from trainwreck.models.variants import select
from trainwreck.models.variants.batch_norm import RunningMoments, initial_moments
from trainwreck.scenarios.config.settings import LossForm, Reduction
from trainwreck.scenarios.data.batches import fresh, validation
from trainwreck.scenarios.spec.faults import State
from trainwreck.scenarios.spec.job import Job, extras
from trainwreck.scenarios.training import stacking, telemetry
from trainwreck.scenarios.training.cuda_graph import CapturedStep, capturable
from trainwreck.scenarios.training.distributed.averaging import Averaging
from trainwreck.scenarios.training.distributed.group import Group
from trainwreck.scenarios.training.distributed.record import combined
from trainwreck.scenarios.training.inputs import Feed, feed
from trainwreck.scenarios.training.stacking import HeldOut, per_run

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Place:
    """Where a lane runs. impl: of the kernels; None for the rule of `trainwreck.kernels.selection`.

    group: the ranks of which this process is one; None where there is one only.
    graphs: steps that can be are captured as CUDA graphs.
    """

    device: torch.device = CPU
    dtype: torch.dtype = torch.float32
    impl: str | None = None
    group: Group | None = None
    graphs: bool = False


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
        self.group = place.group
        if self.program.ranks != (self.group.ranks if self.group else 1):
            raise ValueError(f"distributed.ranks: {self.program.ranks} is not allowed in mid-run; allowed: no change")
        self.averaging: Averaging | None = None
        if self.group is not None:
            exchanges = [s.exchange for s in self.segments]
            self.averaging = Averaging(self.group, exchanges, self.flat, self._held(states))
        self.moments = optim.Moments(column("count"), column("first"), column("second"))
        self.parametrization = stacking.optional([s.parametrization for s in self.segments], Parametrization, self.flat)
        self.updates = stacking.optional([s.updates for s in self.segments], Updates, self.flat)
        self.carried = self._carried(states)
        self.average = self._average(states)
        self.running = self._running(states)
        self.average_decay = per_run([s.setup.evaluation.average for s in self.segments], self.flat)
        if extras(self.parametrization):  # one leaf: the weights that compute are made of it each time
            self.leaves = {"flat": self.flat.detach().requires_grad_()}
        else:
            self.leaves = {k: v.detach().requires_grad_() for k, v in self.plan.views(self.flat).items()}
        self.scaler = stacking.loss_scaler(self.segments, column("loss_scale"), column("good_steps"))
        self.settings = stacking.optimizer_settings(self.segments, self.plan, self.flat)
        self.decay_mask = self.plan.decay_mask.to(place.device, place.dtype)
        if self.updates.decays_NP is not None:
            self.decay_mask = self.updates.decays_NP
        self.dropout_rate = per_run([s.setup.dropout for s in self.segments], self.flat)
        self.z_loss = per_run([s.setup.z_loss for s in self.segments], self.flat)
        self.smoothing = per_run([s.setup.label_smoothing for s in self.segments], self.flat)
        self.log_objective = torch.tensor([s.setup.log_objective for s in self.segments], device=place.device)
        self.tables = stacking.tables(self.segments, self.flat)
        self.held_out = stacking.held_out([validation(s.setup)[0] for s in self.segments], self.flat)
        self.fresh: HeldOut | None = None
        if self.setup.evaluation.fresh:
            self.fresh = stacking.held_out([fresh(s.setup) for s in self.segments], self.flat)
        self.recorder: telemetry.Recorder | None = None
        self.captured = CapturedStep(self) if place.graphs and capturable(self) else None

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
        if self.averaging is not None and self.averaging.held is not None:
            names["held"] = torch.stack(self.averaging.held, 1)
        if self.carried is not None:
            names["carried"] = self.carried
        if self.average is not None:
            names["average"] = self.average
        if self.running is not None:
            names["running"] = self.running.moments_NS2D
        return [{k: v[i].detach().clone() for k, v in names.items()} for i in range(len(self.jobs))]

    def feed(self, steps: range) -> Feed:
        """Data, learning rates and host signals of a block of steps."""
        rank = self.group.rank if self.group is not None else 0
        return feed(self.jobs, steps, rank, self.device, self.flat.dtype)

    def run(self, steps: range, record: bool) -> tuple[list[dict[str, np.ndarray]], dict[int, np.ndarray]]:
        """Train a block of steps.

        Returns each run's signals [S] or [S, K], and losses on the held-out sets [N, 1 or 2] by step.
        """
        fed = self.feed(steps)
        if record and self.recorder is None:
            self.recorder = telemetry.Recorder(
                self.setup.model, self.plan, len(self.jobs), len(steps), self.device, self.impl
            )
        losses: list[tuple[int, Tensor]] = []
        advance = self.captured or self.step
        every, last = self.setup.evaluation.every, self.setup.steps - 1
        for index, step in enumerate(steps):
            if record and (step % every == 0 or step == last):
                losses.append((step, self.evaluate(step)))
            advance(fed, index, step)
        evaluated = {step: self._first(value).cpu().numpy() for step, value in losses}
        if self.recorder is None:
            return [], evaluated
        block = self._record(self.recorder, fed, len(steps))
        signals = [
            {k: v[:, i, 0] if BY_NAME[k].axis is Axis.SCALAR else v[:, i] for k, v in block.items()} | fed.host[i]
            for i in range(len(self.jobs))
        ]
        return signals, evaluated

    def _first(self, value: Tensor) -> Tensor:
        return value if self.group is None else self.group.gather(value)[0]

    def _record(self, recorder: telemetry.Recorder, feed: Feed, steps: int) -> dict[str, np.ndarray]:
        """Signals of a block, [S, N, K], of all ranks as one; what the host knows of each goes into `feed`."""
        if self.group is None:
            return recorder.read(steps)
        own = np.stack([h["rank_batch_hash"][:, 0] for h in feed.host], 1)
        for i, hashes in enumerate(np.moveaxis(self.group.gather_array(own, self.device), 1, 0)):
            feed.host[i]["rank_batch_hash"] = hashes
        parts = self.group.gather(recorder.buffer[:steps])
        return combined([recorder.split(part) for part in parts], feed.tokens)

    def step(self, feed: Feed, index: int, step: int) -> None:
        """One training step of every run. No value is asked of the device."""
        probe = Probe() if self.recorder is not None else None
        dropout = self._dropout(step) if self.program.dropout else None
        model = self._model(self.parameters(), step, self.running, dropout, probe)
        logits = gpt.forward(model, feed.inputs[index], feed.documents[index])
        weights = feed.weights[index]
        nll, log_z, largest = self._losses(logits, feed.targets[index], largest=probe is not None)
        value = nll
        if self.program.smoothed:
            value = smoothed(nll, log_z, logits, self.smoothing)
        loss = weighted_mean(value, weights)
        if self.program.reduction is Reduction.SUM:
            loss = loss * weights.sum(1)
        objective = loss
        if self.program.z_loss:
            objective = loss + self.z_loss * weighted_mean(log_z**2, weights)
            loss = torch.where(self.log_objective, objective, loss)
        scale = self.scaler.scale
        factor = scale if self.program.scaled else torch.ones_like(loss)
        parts = torch.autograd.grad(objective, list(self.leaves.values()), grad_outputs=factor)
        with torch.no_grad():
            grads = torch.cat([part.flatten(1) for part in parts], 1)
            own_norm = None
            if self.averaging is not None:
                grads, own_norm = self.averaging.average(grads, weights.sum(1))
            if self.program.scaled:
                grads.div_(scale.unsqueeze(1))
            grads = self.updates.arrive(grads, self.carried)
            if self.carried is not None:
                self.carried = grads.clone()
            seen = segment_statistics(grads, self.plan.bounds, nonfinite=self.recorder is not None, impl=self.impl)
            layer_norm = seen.norm_NS
            norm = torch.linalg.vector_norm(layer_norm, dim=1)
            overflow = ~torch.isfinite(norm)
            if self.averaging is not None and own_norm is not None:
                overflow = self.averaging.overflow(overflow, own_norm)
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
                        zero_grads=torch.eq(grads, 0, out=torch.empty_like(grads)).mean(1),  # a bool's sum is slow
                        flat=self.computing(),
                        probe=probe,
                        rank_grad_norm=None if own_norm is None else own_norm / factor,
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
                self.program.storage,
            )
            if self.average is not None:
                self.average.lerp_(self.flat, (1 - self.average_decay).unsqueeze(1))
            if self.program.scaled:
                self.scaler.update(overflow)
            if self.recorder is not None and values is not None:
                rms = optim.moment_rms(self.program.optimizer, grads, self.moments, self.settings, self.plan.bounds)
                self.recorder.write(index, values, update, rms)

    def parameters(self) -> dict[str, Tensor]:
        """The weights that compute, by name."""
        if "flat" not in self.leaves:
            return self.leaves
        return self.plan.views(self.parametrization.apply(self.leaves["flat"]))

    def computing(self) -> Tensor:
        """The weights that compute, flat, [N, P]."""
        return self.parametrization.apply(self.flat)

    def _model(
        self,
        params: dict[str, Tensor],
        step: int,
        running: RunningMoments | None,
        dropout: gpt.Dropout | None = None,
        probe: Probe | None = None,
    ) -> gpt.Model:
        config = self.setup.model
        hooks = select.hooks(config, self.tables, [job.seed for job in self.jobs], step, running)
        return gpt.Model(params, config, self.tables, self.program.format, dropout, probe, hooks, self.impl)

    def evaluate(self, step: int = 0) -> Tensor:
        """Mean losses on the held-out rows and, where the program has them, on the fresh ones, [N, 1 or 2]."""
        sets = (self.held_out,) if self.fresh is None else (self.held_out, self.fresh)
        return torch.stack([self.validate(step, held_out) for held_out in sets], 1)

    def _looked_at(self, step: int, weights: Tensor) -> Tensor:
        """Weights of the held-out tokens, [N, B, T], with 0 for rows that an evaluation's sample leaves out."""
        samples = [s.setup.evaluation.sample for s in self.segments]
        if not any(samples) or step == self.setup.steps - 1:
            return weights
        rows = np.ones(weights.shape[:2], bool)
        for row, job, sample in zip(rows, self.jobs, samples, strict=True):
            if sample:
                row[generator(job.seed, "evaluation", step).permutation(len(row))[sample:]] = False
        return torch.where(torch.from_numpy(rows).to(self.device).unsqueeze(2), weights, 0.0)

    @torch.no_grad()
    def validate(self, step: int = 0, held_out: HeldOut | None = None) -> Tensor:
        """Mean loss on the held-out rows, or on others, [N]."""
        held_out = held_out or self.held_out
        parts = self.held_out_logits(step, held_out)
        nll = torch.cat([self._losses(logits, targets).nll_NM for logits, targets in parts], 1)
        return weighted_mean(nll, self._looked_at(step, held_out[2]).flatten(1))

    def held_out_logits(self, step: int = 0, held_out: HeldOut | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits [N, M, V] and targets [N, M] of the held-out rows, as many rows at a time as a batch has."""
        inputs, targets, _, documents = held_out or self.held_out
        rows = self.setup.data.rows
        dropout, average = self.program.evaluated
        params = self.parameters()
        if average and self.average is not None:
            params = self.plan.views(self.parametrization.apply(self.average))
        running = None if self.running is None else dataclasses.replace(self.running, training=False)
        for a in range(0, inputs.shape[1], rows):
            part = slice(a, a + rows)
            draws = self._dropout(step, f"dropout/evaluation/{a}") if dropout else None
            model = self._model(params, step, running, draws)
            yield gpt.forward(model, inputs[:, part], documents[:, part]), targets[:, part].flatten(1)

    def _losses(self, logits: Tensor, targets: Tensor, largest: bool = False) -> TokenLosses:
        if self.program.loss is LossForm.LOG_OF_SOFTMAX:
            return naive.cross_entropy(logits, targets, largest)
        return cross_entropy(logits, targets, largest=largest, impl=self.impl)

    def _dropout(self, step: int, prefix: str = "dropout") -> gpt.Dropout:
        """Draws of a step. Ranks draw masks of their own, as they have rows of their own."""
        rank = self.group.rank if self.group is not None else 0
        seeds = [(job.seed + (rank << 48)) % SEED_LIMIT for job in self.jobs]
        return gpt.Dropout(seeds, step, self.dropout_rate, prefix)

    def _average(self, states: list[State]) -> Tensor | None:
        """The moving average of the weights, [N, P], where it is evaluated; it begins as the weights."""
        if not self.program.evaluated[1]:
            return None
        return torch.stack([s.get("average", s["parameters"]) for s in states]).to(self.device)

    def _running(self, states: list[State]) -> RunningMoments | None:
        """What a BatchNorm keeps; it begins as mean 0 and variance 1."""
        config = self.setup.model
        if config.norm is not Norm.BATCH:
            return None
        names = norm_names(config)
        fresh = initial_moments(names, config.width, self.flat.dtype)
        moments = torch.stack([s.get("running", fresh) for s in states]).to(self.device)
        return RunningMoments(moments, names)

    def _carried(self, states: list[State]) -> Tensor | None:
        """Gradients not cleared so far, [N, P], where some run keeps them."""
        if self.updates.kept_N is None:
            return None
        return torch.stack([s.get("carried", torch.zeros_like(s["parameters"])) for s in states]).to(self.device)

    def _held(self, states: list[State]) -> Tensor | None:
        """Of each rank what came too late for the last step, [N, W, P + 1], where some gradient comes late."""
        if not self.program.late:
            return None
        nothing = self.flat.new_zeros(self.program.ranks, self.flat.shape[1] + 1)
        return torch.stack([state.get("held", nothing).to(self.device) for state in states])
