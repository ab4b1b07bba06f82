"""Runs that share a program, side by side: every tensor has a leading run dimension."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.cross_entropy import TokenLosses, cross_entropy, first_factor, naive
from trainwreck.kernels.random import SEED_LIMIT
from trainwreck.kernels.selection import choose
from trainwreck.models import gpt, optim
from trainwreck.models.config import Format, ModelConfig, Norm, OptimizerKind
from trainwreck.models.experts.routing import RouterLosses
from trainwreck.models.muon import matrices
from trainwreck.models.parameters import Layout, layout, norm_names
from trainwreck.models.parametrization import Parametrization, Updates
from trainwreck.models.precision import Float8, empty_history, products
from trainwreck.models.probe import Probe
from trainwreck.models.tables import Tables
from trainwreck.models.variants import select
from trainwreck.models.variants.batch_norm import RunningMoments, initial_moments
from trainwreck.scenarios.config.experts import BalanceAxis
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import LossForm
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import fresh, validation
from trainwreck.scenarios.data.sources.facts import FACTS
from trainwreck.scenarios.spec.faults import State
from trainwreck.scenarios.spec.job import Job, Segment, extras
from trainwreck.scenarios.training.distributed.averaging import Averaging
from trainwreck.scenarios.training.distributed.group import Group
from trainwreck.scenarios.training.inputs import Ahead, Inputs
from trainwreck.scenarios.training.objectives.rollouts import rollouts
from trainwreck.scenarios.training.telemetry import Recorder

CPU = torch.device("cpu")
BLOCK = 50  # steps between two transfers of statistics
# Activations (rows * context * width) of the runs stepped as one: on a CPU what its caches hold. C++ kernels pass over
# them fewer times; with them more runs share what a step costs however small its tensors are.
BUNDLE_ELEMENTS = {"cpu": 200_000, "cpp": 800_000, "cuda": 200_000_000}

HeldOut = tuple[Tensor, Tensor, Tensor, Tensor]  # inputs, targets, weights, documents
Advance = Callable[[Inputs, int, int], None]  # one training step: inputs of a block, index in it, step
T = TypeVar("T", Parametrization, Updates)


def bundle_width(rows: int, model: ModelConfig, device: str = "cpu", impl: str | None = None) -> int:
    """How many runs of a model are stepped as one. rows: of a batch; device: its type; impl: of the kernels."""
    elements = BUNDLE_ELEMENTS["cpp" if impl == "cpp" else device]
    return max(1, elements // (rows * model.context * model.width))


@dataclass(frozen=True)
class Place:
    """Where a bundle runs. impl: of the kernels; None for the rule of `trainwreck.kernels.selection`.

    group: the ranks of which this process is one; None where there is one only.
    graphs: steps that can be are captured as CUDA graphs. ahead: the next block's inputs are sampled while one trains.
    """

    device: torch.device = CPU
    dtype: torch.dtype = torch.float32
    impl: str | None = None
    group: Group | None = None
    graphs: bool = False
    ahead: bool = False


class Bundle:
    """N runs of one program, built from their states. `run_block` trains them, `states` gives them back."""

    def __init__(self, jobs: list[Job], states: list[State], step: int, place: Place | None = None):
        self.place = place = place or Place()
        self.jobs, self.device = list(jobs), place.device
        self.segments = [job.segment(step) for job in jobs]
        self.setup = self.segments[0].setup  # what the program fixes is the same in all
        self.program = self.segments[0].program
        self.plan: Layout = layout(self.setup.model)

        def column(name: str) -> Tensor:
            return _stacked([state[name] for state in states], place.device)

        self.flat = column("parameters")
        self.impl = choose(place.impl, self.flat)
        self.group = place.group
        if self.program.ranks != (self.group.ranks if self.group else 1):
            raise ValueError(f"distributed.ranks: {self.program.ranks} is not allowed in mid-run; allowed: no change")
        self.averaging: Averaging | None = None
        if self.group is not None:
            exchanges = [s.exchange for s in self.segments]
            self.averaging = Averaging(self.group, exchanges, self.plan, self.flat, self._held(states))
        self.moments = optim.Moments(column("count"), column("first"), column("second"))
        self.parametrization = _optional([s.parametrization for s in self.segments], Parametrization, self.flat)
        self.updates = _optional([s.updates for s in self.segments], Updates, self.flat)
        self.carried = self._carried(states)
        self.average = self._average(states)
        self.cached = self._cached(states)
        self.reference = self._reference(states)
        self.rollouts = rollouts(self.jobs, self.segments, states, self.flat)
        self.index, self.indexed = self._index(states)
        self.running = self._running(states)
        self.float8 = self._float8(states)
        self.average_decay = _per_run([s.setup.evaluation.average for s in self.segments], self.flat)
        if extras(self.parametrization):  # one leaf: the weights that compute are made of it each time
            self.leaves = {"flat": self.flat.detach().requires_grad_()}
        else:
            self.leaves = {k: v.detach().requires_grad_() for k, v in self.plan.views(self.flat).items()}
        self.scaler = _loss_scaler(self.segments, column("loss_scale"), column("good_steps"))
        self.settings = _optimizer_settings(self.segments, self.plan, self.flat, self.impl)
        self.decay_mask = self.plan.decay_mask.to(place.device, place.dtype)
        if self.updates.decays_NP is not None:
            self.decay_mask = self.updates.decays_NP
        self.dropout_rate = _per_run([s.setup.dropout for s in self.segments], self.flat)
        self.z_loss = _per_run([s.setup.z_loss for s in self.segments], self.flat)
        self.scheduled_sampling = _per_run([s.setup.decoding.scheduled_sampling for s in self.segments], self.flat)
        routing = [s.setup.routing for s in self.segments]
        self.balance_loss = _per_run([r.balance_loss for r in routing], self.flat)
        self.balance_blind = torch.tensor([r.balance_axis is BalanceAxis.EXPERTS for r in routing], device=place.device)
        self.router_z_loss = _per_run([r.router_z_loss for r in routing], self.flat)
        self.beta = _per_run([s.setup.preferences.beta for s in self.segments], self.flat)
        self.anchor = _per_run([s.setup.preferences.anchor for s in self.segments], self.flat)
        self.picture_weight = _per_run([s.setup.modalities.picture_weight for s in self.segments], self.flat)
        self.smoothing = _per_run([s.setup.label_smoothing for s in self.segments], self.flat)
        self.log_objective = torch.tensor([s.setup.log_objective for s in self.segments], device=place.device)
        self.tables = _tables(self.segments, self.flat)
        self.held_out = _held_out([validation(s.setup)[0] for s in self.segments], self.flat)
        self.fresh: HeldOut | None = None
        if self.setup.evaluation.fresh:
            self.fresh = _held_out([fresh(s.setup) for s in self.segments], self.flat)
        self.recorder: Recorder | None = None
        self.graphs = place.graphs
        self.captured: Advance | None = None
        self.ahead = Ahead(place.ahead)

    def state(self, index: int) -> State:
        """The state of a run, copied."""
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
        if self.cached is not None:
            names["cached"] = self.cached
        if self.reference is not None:
            names["reference"] = self.reference
        if self.rollouts is not None:
            names |= self.rollouts.state()
        if self.program.objective is ObjectiveKind.RETRIEVAL:
            names |= {"index": self.index, "indexed": self.indexed}
        if self.running is not None:
            names["running"] = self.running.moments_NS2D
        if self.float8 is not None:
            names["amax_history"] = self.float8.history_NS2H
        return {name: column[index].detach().clone() for name, column in names.items()}

    def states(self) -> list[State]:
        """The state of each run, copied."""
        return [self.state(index) for index in range(len(self.jobs))]

    def rows(self) -> dict[str, Tensor]:
        """What a run has a row of, by name. The learning rate is not here: it comes with each step's inputs."""
        holders = {
            "": self,
            "moments": self.moments,
            "scaler": self.scaler,
            "settings": self.settings,
            "tables": self.tables,
            "parametrization": self.parametrization,
            "updates": self.updates,
            "running": self.running,
            "float8": self.float8,
            "rollouts": self.rollouts,
        }
        found = {
            f"{holder}.{name}": value
            for holder, part in holders.items()
            if part is not None
            for name, value in vars(part).items()
            if isinstance(value, Tensor)
        }
        for name, held_out in (("held_out", self.held_out), ("fresh", self.fresh)):
            found |= {f"{name}.{i}": value for i, value in enumerate(held_out or ())}
        shared = {"settings.lr"} | ({".decay_mask"} if self.updates.decays_NP is None else set())
        return {name: value for name, value in found.items() if name not in shared}

    @torch.no_grad()
    def overwrite(self, index: int, job: Job, state: State, step: int) -> None:
        """Put a run in the place of another, every tensor where it is; it has the bundle's program at the step."""
        one = Bundle([job], [state], step, self.place)
        theirs = one.rows()
        for name, value in self.rows().items():
            value[index].copy_(theirs[name][0])
        self.jobs[index], self.segments[index] = job, one.segments[0]

    def lend(self, index: int, other: int) -> None:
        """Give a run, whose numbers nobody reads, the inputs of another one."""
        self.jobs[index], self.segments[index] = self.jobs[other], self.segments[other]

    def inputs(self, steps: range, following: range | None = None) -> Inputs:
        """Data, learning rates and host signals of a block of steps; following: the block that is likely to be next."""
        rank, dtype = self.group.rank if self.group is not None else 0, self.flat.dtype
        block = self.ahead.take(self.jobs, steps, rank, dtype).to(self.device)
        if self.place.ahead and following:
            self.ahead.begin(self.jobs, following, rank, dtype)
        return block

    def parameters(self) -> dict[str, Tensor]:
        """The weights that compute, by name."""
        if "flat" not in self.leaves:
            return self.leaves
        return self.plan.views(self.parametrization.apply(self.leaves["flat"]))

    def computing(self) -> Tensor:
        """The weights that compute, flat, [N, P]."""
        return self.parametrization.apply(self.flat)

    def token_losses(self, logits: Tensor, targets: Tensor, largest: bool = False) -> TokenLosses:
        """Losses of tokens by the form that the program has."""
        if self.program.loss is LossForm.LOG_OF_SOFTMAX:
            return naive.cross_entropy(logits, targets, largest)
        if self.program.loss is LossForm.FIRST_FACTOR:
            return first_factor.cross_entropy(logits, targets, largest, self.impl)
        return cross_entropy(logits, targets, largest=largest, impl=self.impl)

    def dropout(self, step: int, prefix: str = "dropout") -> gpt.Dropout:
        """Draws of a step. Ranks draw masks of their own, as they have rows of their own."""
        rank = self.group.rank if self.group is not None else 0
        seeds = [(job.seed + (rank << 48)) % SEED_LIMIT for job in self.jobs]
        return gpt.Dropout(seeds, step, self.dropout_rate, prefix)

    def router_losses(self) -> RouterLosses | None:
        """What collects the losses of a step's routers; None without experts."""
        return RouterLosses(self.balance_blind) if self.setup.model.experts else None

    def model(
        self,
        params: dict[str, Tensor],
        step: int,
        running: RunningMoments | None,
        dropout: gpt.Dropout | None = None,
        probe: Probe | None = None,
        float8: Float8 | None = None,
        routers: RouterLosses | None = None,
    ) -> gpt.Model:
        """The model of a step with these weights, and the hooks of its faults."""
        config = self.setup.model
        hooks = select.hooks(config, self.tables, [job.seed for job in self.jobs], step, running)
        return gpt.Model(
            params, config, self.tables, self.program.format, dropout, probe, hooks, self.impl, float8, routers
        )

    def _average(self, states: list[State]) -> Tensor | None:
        """The moving average of the weights, [N, P], where it is evaluated; it begins as the weights."""
        if not self.program.evaluated[1]:
            return None
        return _stacked([s.get("average", s["parameters"]) for s in states], self.device)

    def _cached(self, states: list[State]) -> Tensor | None:
        """The weights, [N, P], that what is cached of held-out prompts was made with, where that is kept."""
        if self.program.flush:
            return None
        return _stacked([s.get("cached", s["parameters"]) for s in states], self.device)

    def _reference(self, states: list[State]) -> Tensor | None:
        """The weights, [N, P], that runs had when pairs or rewards began, where they have."""
        if not self.program.pairs and not self.program.rewarded:
            return None
        return _stacked([s.get("reference", s["parameters"]) for s in states], self.device)

    def _index(self, states: list[State]) -> tuple[Tensor, Tensor]:
        """What the slots of a store are found by, [N, S, D], and the step that it was made at, [N]; made at step 0."""
        none = self.flat.new_zeros(FACTS, self.setup.model.width), self.flat.new_zeros(())
        parts = [(s.get("index", none[0]), s.get("indexed", none[1])) for s in states]
        index, indexed = ([part[i] for part in parts] for i in range(2))
        return _stacked(index, self.device), _stacked(indexed, self.device)

    def _running(self, states: list[State]) -> RunningMoments | None:
        """What a BatchNorm keeps; it begins as mean 0 and variance 1."""
        config = self.setup.model
        if config.norm is not Norm.BATCH:
            return None
        names = norm_names(config)
        fresh = initial_moments(names, config.width, self.flat.dtype)
        moments = _stacked([s.get("running", fresh) for s in states], self.device)
        return RunningMoments(moments, names)

    def _float8(self, states: list[State]) -> Float8 | None:
        """The scales of products in float8; a history begins empty."""
        if self.program.format is not Format.FP8:
            return None
        empty = empty_history(self.setup.model, self.flat.dtype)
        history = _stacked([s.get("amax_history", empty) for s in states], self.device)
        fresh = torch.tensor([s.setup.precision.amax_updates for s in self.segments], device=self.device)
        return Float8(history, products(self.setup.model), fresh)

    def _carried(self, states: list[State]) -> Tensor | None:
        """Gradients not cleared so far, [N, P], where some run keeps them."""
        if self.updates.kept_N is None:
            return None
        return _stacked([s.get("carried", torch.zeros_like(s["parameters"])) for s in states], self.device)

    def _held(self, states: list[State]) -> Tensor | None:
        """Of each rank what came too late for the last step, [N, W, P + 1], where some gradient comes late."""
        if not self.program.late:
            return None
        nothing = self.flat.new_zeros(self.program.ranks, self.flat.shape[1] + 1)
        return _stacked([state.get("held", nothing) for state in states], self.device)


def _stacked(parts: list[Tensor], device: torch.device) -> Tensor:
    """One tensor of the runs' own, which may lie on the host: a run that begins or resumes comes from there."""
    return torch.stack([part.to(device) for part in parts])


# In each function below `like` is the runs' flat weights, [N, P]: their device and dtype are the result's.


def _per_run(values: list[float], like: Tensor) -> Tensor:
    """One number a run, [N]."""
    return torch.tensor(values, dtype=like.dtype, device=like.device)


def _optional(parts: list[T], kind: type[T], like: Tensor) -> T:
    """Optional tensors of all runs; which ones there are is the same in all."""
    names = extras(parts[0])
    return kind(**{name: _moved(torch.cat([getattr(part, name) for part in parts]), like) for name in names})


def _optimizer_settings(segments: list[Segment], plan: Layout, like: Tensor, impl: str) -> optim.Settings:
    """The optimizer's settings of each run; the learning rate is that of the peak."""
    program = segments[0].program
    optimizers = [s.setup.optimizer for s in segments]
    return optim.Settings(
        lr=_per_run([o.lr for o in optimizers], like),
        beta1=_per_run([o.beta1 for o in optimizers], like),
        beta2=_per_run([o.beta2 for o in optimizers], like),
        eps=_per_run([o.eps for o in optimizers], like),
        weight_decay=_per_run([o.weight_decay for o in optimizers], like),
        clip=_per_run([float("inf") if o.clip is None else o.clip for o in optimizers], like),
        coupled=torch.tensor([o.coupled for o in optimizers], device=like.device) if program.coupled else None,
        update_clip=_per_run([o.update_clip or 0.0 for o in optimizers], like) if program.update_clip else None,
        bounds=tuple((slot.start, slot.stop) for slot in plan.slots),
        matrices=matrices(plan) if program.optimizer is OptimizerKind.MUON else (),
        impl=impl,
    )


def _loss_scaler(segments: list[Segment], scale: Tensor, good_steps: Tensor) -> optim.LossScaler:
    """The loss scale of each run, as its state left it. scale, good_steps: [N]."""
    precisions = [s.setup.precision for s in segments]
    return optim.LossScaler(
        scale=scale,
        good_steps=good_steps,
        dynamic=torch.tensor([p.dynamic for p in precisions], device=scale.device),
        interval=_per_run([p.growth_interval for p in precisions], scale),
        minimum=_per_run([p.smallest_scale for p in precisions], scale),
        maximum=_per_run([p.largest_scale for p in precisions], scale),
    )


def _tables(segments: list[Segment], like: Tensor) -> Tables:
    """Masks, rotary angles and gains of each run."""
    program, parts = segments[0].program, [s.tables for s in segments]

    def cat(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts]).to(like.device)

    wide = like.dtype == torch.float64
    rotary = torch.complex128 if wide else torch.complex64
    return Tables(
        allowed_NTS=cat("allowed_NTS"),
        documents_N=cat("documents_N"),
        scale_N=cat("scale_N").to(like.dtype),
        rotary_q_NTK=cat("rotary_q_NTK").to(rotary),
        rotary_k_NTK=cat("rotary_k_NTK").to(rotary),
        **{name: _moved(cat(name), like) for name in extras(parts[0])},
        leaky=program.leaky,
        causal=program.causal,
    )


def _held_out(batches: list[Batch], like: Tensor) -> HeldOut:
    """Rows that are evaluated, one batch a run."""
    inputs, targets, weights, documents = (
        torch.from_numpy(np.stack([getattr(b, name) for b in batches])).to(like.device)
        for name in ("inputs", "targets", "weights", "documents")
    )
    return inputs, targets, weights.to(like.dtype), documents


def _moved(tensor: Tensor, like: Tensor) -> Tensor:
    return tensor.to(like.device, like.dtype if tensor.is_floating_point() else tensor.dtype)
