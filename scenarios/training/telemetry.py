"""Statistics of each step, gathered on the device and handed over in blocks of steps.

Nothing here asks the device for a value: a step writes one row of a preallocated buffer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from trainwreck.evaluation.dataset.schema import BUCKETS, EVALUATIONS, GROUPS, OF_OBJECTIVES, SIGNALS, Axis
from trainwreck.kernels.cross_entropy import bucket_losses
from trainwreck.kernels.norms import segment_statistics
from trainwreck.kernels.random import generator, sent
from trainwreck.models.config import ModelConfig
from trainwreck.models.parameters import Layout
from trainwreck.models.probe import Probe
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.training.matrices import Matrices

# Signals that the host knows without asking the device.
HOST_SIGNALS = (
    "lr", "tokens", "step_seconds", "tokens_per_second", "token_entropy", "unique_share", "pad_share",
    "rank_batch_hash", "scored_tokens", "qk_spectral_entropy",
)  # fmt: skip
DEVICE_SIGNALS = tuple(s for s in SIGNALS if s.name not in (*HOST_SIGNALS, *EVALUATIONS))
HASH_BITS = 24  # as many as float32 holds exactly
_factors: dict[tuple[int, str], Tensor] = {}


def widths(config: ModelConfig) -> dict[Axis, int]:
    """Numbers a step for a signal of each axis."""
    return {
        Axis.SCALAR: 1,
        Axis.LAYERS: config.layers + 2,
        Axis.BLOCKS: config.layers,
        Axis.HEADS: config.layers * config.heads,
        Axis.POSITIONS: BUCKETS,
        Axis.AGES: age_buckets(config.context),
        Axis.RANKS: 1,  # of each rank's own record
        Axis.GROUPS: len(GROUPS),
    }


def age_buckets(context: int) -> int:
    """How many doubling buckets hold every age of a row: 1, 2, 3-4, 5-8 ..."""
    return 1 + (context - 1).bit_length()


@dataclass
class StepFacts:
    """What a training step knows, each with leading axis N. flat is the weights before the update."""

    loss: Tensor
    nll_NM: Tensor
    weight_NM: Tensor
    age_NM: Tensor  # age bucket of each token
    log_z_NM: Tensor
    largest_NM: Tensor  # magnitude of a logit
    grad_norm: Tensor
    clip_coef: Tensor
    loss_scale: Tensor
    skipped: Tensor
    layer_grad_norm: Tensor
    nonfinite_grads: Tensor
    zero_grads: Tensor
    flat: Tensor
    probe: Probe
    rank_grad_norm: Tensor | None = None  # where there are several ranks
    ends_NM: Tensor | None = None  # of rows with answers: whether the target is an answer's end
    signals: Mapping[str, Tensor] = field(default_factory=dict)  # of the run's objective, by name


class Recorder:
    """A buffer of [steps, N, columns] and the order of its columns."""

    def __init__(
        self, config: ModelConfig, plan: Layout, runs: int, steps: int, device: torch.device, impl: str | None = None
    ) -> None:
        self.plan, self.impl = plan, impl
        width = widths(config)
        self.columns: dict[str, tuple[int, int]] = {}
        stop = 0
        for signal in DEVICE_SIGNALS:
            self.columns[signal.name] = (stop, stop + width[signal.axis])
            stop += width[signal.axis]
        self.buffer = torch.empty(steps, runs, stop, device=device)
        self.context, self.ages = config.context, age_buckets(config.context)
        self.matrices = Matrices(plan, device)
        self.unknown = torch.full((runs, config.layers), torch.nan, device=device)

    @torch.no_grad()
    def before_update(self, facts: StepFacts) -> dict[str, Tensor]:
        """Every device signal but those of the update."""
        weights = segment_statistics(facts.flat, self.plan.bounds, largest=True, impl=self.impl)
        assert weights.largest_NS is not None
        values = {
            "loss": facts.loss,
            **row_statistics(facts.nll_NM, facts.weight_NM, self.context),
            "grad_norm": facts.grad_norm,
            "clip_coef": facts.clip_coef,
            "loss_scale": facts.loss_scale,
            "skipped": facts.skipped,
            "nonfinite_grads": facts.nonfinite_grads,
            "zero_grads": facts.zero_grads,
            "log_z": facts.log_z_NM.mean(1),
            "output_max": facts.largest_NM.amax(1),
            "layer_grad_norm": facts.layer_grad_norm,
            "layer_weight_norm": weights.norm_NS,
            "layer_weight_max": weights.largest_NS,
            "nonfinite_weights": (~torch.isfinite(weights.largest_NS)).sum(1),
        }
        if facts.rank_grad_norm is None:
            nothing = torch.full_like(facts.loss, torch.nan)
            values.update(rank_weight_hash=nothing, rank_grad_norm=nothing)
        else:
            values.update(rank_weight_hash=weight_hash(facts.flat), rank_grad_norm=facts.rank_grad_norm)
        missing = torch.full_like(facts.loss, torch.nan)
        values.update({name: facts.signals.get(name, missing) for name in OF_OBJECTIVES})
        values["adapter_norm"] = adapter_norm(facts.flat, self.plan)
        values["end_probability"] = end_probability(facts.nll_NM, facts.ends_NM)
        values.update(facts.probe.reduce())
        losses = bucket_losses(
            facts.nll_NM,
            facts.weight_NM,
            facts.age_NM,
            context=self.context,
            positions=BUCKETS,
            ages=self.ages,
            impl=self.impl,
        )
        values.update(position_loss=losses.position, age_loss=losses.age)
        return values

    @torch.no_grad()
    def write(self, index: int, values: dict[str, Tensor], update: Tensor, moment_rms: Tensor | None = None) -> None:
        """One row of the buffer. update: what was added to the weights, [N, P]; moment_rms: of `optim`, [N, S]."""
        moved, values["update_rms"] = self.matrices.moved(update, self.impl)
        values["layer_update_ratio"] = moved / values["layer_weight_norm"]
        values["layer_moment_rms"] = torch.full_like(moved, torch.nan) if moment_rms is None else moment_rms
        values["spectral_norm"] = self.unknown  # `write_spectral` knows it, at evaluated steps
        row = [values[s.name].float().view(update.shape[0], -1) for s in DEVICE_SIGNALS]
        torch.cat(row, 1, out=self.buffer[index])

    def write_spectral(self, index: int, norm_NL: Tensor) -> None:
        """Put `Matrices.spectral_norm` of the weights before a step into its row, which `write` has made."""
        start, stop = self.columns["spectral_norm"]
        self.buffer[index, :, start:stop] = norm_NL

    def read(self, steps: int) -> dict[str, np.ndarray]:
        """The first `steps` rows, signal to [S, N, K] on the host."""
        return self.split(self.buffer[:steps].cpu().numpy())

    def split(self, buffer: np.ndarray) -> dict[str, np.ndarray]:
        """Rows of a buffer on the host, this rank's or another's: signal to [S, N, K]."""
        return {name: buffer[:, :, a:b].copy() for name, (a, b) in self.columns.items()}


def row_statistics(nll_NM: Tensor, weight_NM: Tensor, context: int) -> dict[str, Tensor]:
    """row_loss_max and row_grad_share, each [N].

    A token's gradient at its logits is weight * (softmax - onehot), whose absolute values sum to
    weight * 2 (1 - p(target)).
    """
    nll, weight = (x.view(len(x), -1, context) for x in (nll_NM, weight_NM))
    scored = weight > 0
    count = scored.sum(2)
    # Selected, not multiplied: what is not scored may be anything.
    loss = torch.where(scored, nll, 0.0).sum(2) / count
    grad = torch.where(scored, weight * -torch.expm1(-nll), 0.0).sum(2)
    return {
        "row_loss_max": torch.where(count > 0, loss, -torch.inf).amax(1),
        "row_grad_share": grad.amax(1) / grad.sum(1),
    }


def end_probability(nll_NM: Tensor, ends_NM: Tensor | None) -> Tensor:
    """Mean probability of the target where it is an answer's end, [N]; NaN without any."""
    if ends_NM is None:
        return torch.full_like(nll_NM[:, 0], torch.nan)
    return torch.where(ends_NM, torch.exp(-nll_NM), 0.0).sum(1) / ends_NM.sum(1)


def adapter_norm(flat_NP: Tensor, plan: Layout) -> Tensor:
    """Norm of the second matrices of all adapters, [N]; NaN without any."""
    if not plan.adapters:
        return torch.full_like(flat_NP[:, 0], torch.nan)
    parts = [torch.linalg.vector_norm(flat_NP[:, start:stop], dim=1) for start, stop in plan.adapters]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(parts, 1), dim=1)
    return norm


def answer_signals(batch: Batch, answers: bool) -> dict[str, np.ndarray]:
    """scored_tokens of a block of batches [S, B, T], [S]; NaN where rows have no answers."""
    scored = (batch.weights > 0).sum((1, 2)) if answers else np.full(len(batch.weights), np.nan)
    return {"scored_tokens": scored}


def ages(documents: np.ndarray) -> np.ndarray:
    """Age bucket of the target of each position, int64, from document ids [..., T].

    A target's age counts the tokens of its document before it: 1 for the second token.
    """
    t = documents.shape[-1]
    position = np.arange(t)
    new = np.ones(documents.shape, bool)
    new[..., 1:] = documents[..., 1:] != documents[..., :-1]
    start = np.maximum.accumulate(np.where(new, position, 0), -1)
    buckets: np.ndarray = np.ceil(np.log2(position + 1)).astype(np.int64)
    return buckets[position - start]


def input_signals(batch: Batch, table_size: int) -> dict[str, np.ndarray]:
    """token_entropy, unique_share and pad_share of a block of batches [S, B, T]; each [S].

    Of the rows of all ranks together.
    """
    steps = len(batch.inputs)
    tokens = batch.inputs.reshape(steps, -1)
    index = (np.arange(steps)[:, None] * table_size + tokens).ravel()
    counts = np.bincount(index, minlength=steps * table_size).reshape(steps, table_size)
    share = counts / tokens.shape[1]
    entropy = -np.where(share > 0, share * np.log(np.where(share > 0, share, 1.0)), 0.0).sum(1)
    return {
        "token_entropy": entropy,
        "unique_share": (counts > 0).mean(1),
        "pad_share": (batch.documents < 0).reshape(steps, -1).mean(1),
    }


def hashed(words: Tensor) -> Tensor:
    """A hash of each row of integers [..., K], float [...]: a sum of products modulo 2**64, its top 24 bits."""
    key = words.shape[-1], str(words.device)
    if key not in _factors:
        draws = generator(0, "hash").integers(-(2**63), 2**63 - 1, key[0], np.int64) | 1
        _factors[key] = sent(draws, words.device)
    total = (words.long() * _factors[key]).sum(-1)
    top: Tensor = (total >> (64 - HASH_BITS)) & (2**HASH_BITS - 1)
    return top.float()


def weight_hash(flat_NP: Tensor) -> Tensor:
    """A hash of the bits of each run's weights, [N]."""
    return hashed(flat_NP.contiguous().view(torch.int32 if flat_NP.dtype is torch.float32 else torch.int64))
