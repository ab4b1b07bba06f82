"""AdamW, SGD, Lion and Muon over the flat buffers of N runs, with every setting a tensor of length N.

Clipping, loss scaling and skipped steps are decided per run by selection, never by multiplying
with a mask, so a run's NaN stays its own.
"""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from trainwreck.kernels.cpp import weights as cpp
from trainwreck.kernels.norms import moment_ratios, segment_statistics
from trainwreck.kernels.selection import choose
from trainwreck.models.config import Format, OptimizerKind
from trainwreck.models.muon import Matrix, orthogonal_updates
from trainwreck.models.parametrization import Updates
from trainwreck.models.precision import stored

SMALLEST = 1e-37  # what float32 can still divide by


@dataclass
class Settings:
    """Optimizer settings of one step, each [N]. clip is inf where clipping is off.

    For SGD beta1 is the momentum, beta2 and eps are not used; Lion has no eps; for Muon beta1 is the momentum of its
    matrices as well. coupled: bool, runs whose decay is part of
    the gradient, as L2 regularisation; None where every run's is decoupled. update_clip: largest RMS of
    g / sqrt(v) of one parameter before its step is shortened, inf where there is none; None where no run
    has one. bounds: start and stop of each parameter, for update_clip. matrices: those that Muon updates. impl: of the
    kernels, by the rule of `trainwreck.kernels.selection` where None.
    """

    lr: Tensor
    beta1: Tensor
    beta2: Tensor
    eps: Tensor
    weight_decay: Tensor
    clip: Tensor
    coupled: Tensor | None = None
    update_clip: Tensor | None = None
    bounds: tuple[tuple[int, int], ...] = ()
    matrices: tuple[Matrix, ...] = ()
    impl: str | None = None


@dataclass
class Moments:
    """Optimizer state of N runs. count: updates so far, float, [N]; first, second: [N, P].

    SGD and Lion keep their momentum in `first` and leave `second` at zero.
    """

    count: Tensor
    first: Tensor
    second: Tensor

    @classmethod
    def zeros(cls, flat: Tensor) -> "Moments":
        """State before the first update of parameters [N, P]."""
        return cls(flat.new_zeros(len(flat)), torch.zeros_like(flat), torch.zeros_like(flat))


@dataclass(frozen=True)
class Storage:
    """The formats in which weights and second moments are kept from step to step."""

    weights: Format = Format.FP32
    second: Format = Format.FP32


def clip_coefficient(grad_norm_N: Tensor, clip_N: Tensor) -> Tensor:
    """min(1, clip / norm), the factor of gradient clipping by global norm (Pascanu et al. 2013).

    1 where `clip` is infinite, whatever the norm.
    """
    factor = torch.clamp(clip_N / (grad_norm_N + 1e-6), max=1.0)
    return torch.where(torch.isinf(clip_N), torch.ones_like(factor), factor)


def update_clip_factor(
    ratio_NP: Tensor, largest_N: Tensor, bounds: tuple[tuple[int, int], ...], impl: str | None = None
) -> Tensor:
    """min(1, largest / RMS) of each parameter, [N, P] (Shazeer and Stern 2018; Wortsman et al. 2023).

    ratio: g / (sqrt(v) + eps) of each weight. bounds: start and stop of each parameter. impl: of the kernels.
    """
    norm_NS = segment_statistics(ratio_NP, bounds, impl=impl).norm_NS
    parts = []
    for i, (start, stop) in enumerate(bounds):
        rms_N = norm_NS[:, i] / (stop - start) ** 0.5
        parts.append(torch.clamp(largest_N / rms_N, max=1.0).unsqueeze(1).expand(-1, stop - start))
    return torch.cat(parts, 1)


def moment_rms(
    kind: OptimizerKind, grads: Tensor, moments: Moments, settings: Settings, bounds: tuple[tuple[int, int], ...]
) -> Tensor | None:
    """Root mean square of g / sqrt(max(v, eps^2)) in each segment after a step, [N, S]; None for SGD and Lion.

    These two have no v.

    v has its bias corrected. RMS_t of Wortsman et al. 2023, "Stable and low-precision training".
    bounds: start and stop of each segment.
    """
    if kind in (OptimizerKind.SGD, OptimizerKind.LION):
        return None
    # g^2 / v, with the correction taken out of the large tensors; the root comes after the sum.
    correct2 = 1 - power(settings.beta2, moments.count)
    least_N = (settings.eps.square() * correct2).clamp(min=SMALLEST)
    mean_NS = moment_ratios(grads, moments.second, least_N, bounds, settings.impl)
    return (mean_NS * correct2.unsqueeze(1)).sqrt()


def step(
    kind: OptimizerKind,
    flat: Tensor,
    grads: Tensor,
    moments: Moments,
    settings: Settings,
    decay_mask: Tensor,
    skip_N: Tensor | None = None,
    updates: Updates | None = None,
    storage: Storage | None = None,
) -> Tensor:
    """Update parameters and moments in place; returns the update, [N, P].

    flat, grads: [N, P], gradients already unscaled and clipped. decay_mask: [P] or [N, P].
    skip_N: bool; parameters and moments of those runs do not change. updates: which weights it reaches.
    storage: where weights kept in a half format swallow part of an update, that part is not in what is returned.
    """
    left, kept = _Left.alone(skip_N, updates or Updates()), storage or Storage()
    if settings.coupled is not None:
        coupled, decay = settings.coupled.unsqueeze(1), settings.weight_decay.unsqueeze(1)
        grads = torch.where(coupled, grads + decay * decay_mask * flat, grads)
        apart = torch.where(settings.coupled, 0.0, settings.weight_decay)
        settings = dataclasses.replace(settings, weight_decay=apart)
    rule = {OptimizerKind.SGD: _sgd, OptimizerKind.LION: _lion}.get(kind, _adamw)  # _adamw does Muon's matrices
    return rule(flat, grads, moments, settings, decay_mask, left, kept)


@dataclass
class _Left:
    """What a step leaves alone: still, parameters and moments; fixed, parameters; skip_N, the count."""

    skip_N: Tensor | None
    still: Tensor | None  # [N, 1] or [N, P]
    fixed_NP: Tensor | None

    @classmethod
    def alone(cls, skip_N: Tensor | None, updates: Updates) -> "_Left":
        still = None if skip_N is None else skip_N.unsqueeze(1)
        if updates.reaches_NP is not None:
            away = ~updates.reaches_NP
            still = away if still is None else still | away
        return cls(skip_N, still, None if updates.moves_NP is None else ~updates.moves_NP)


def power(base_N: Tensor, exponent_N: Tensor) -> Tensor:
    """base ** exponent, [N], to the same bits whatever N is.

    From 16 elements on PyTorch takes vectors on a CPU, whose last bit is another.
    """
    if base_N.is_cuda:
        return base_N**exponent_N
    return torch.cat([b**e for b, e in zip(base_N.split(8), exponent_N.split(8), strict=True)])


def _adamw(
    flat: Tensor, grads: Tensor, moments: Moments, s: Settings, decay_mask: Tensor, left: _Left, kept: Storage
) -> Tensor:
    lr, beta1, beta2, eps, decay = (x.unsqueeze(1) for x in (s.lr, s.beta1, s.beta2, s.eps, s.weight_decay))
    count = moments.count.add(1).unsqueeze(1)
    before = None if left.still is None else (moments.first.clone(), moments.second.clone())
    compiled = choose(s.impl, flat) == "cpp"
    if compiled:
        cpp.average(moments.first, moments.second, grads, 1 - s.beta1, 1 - s.beta2)
    else:
        moments.first.lerp_(grads, 1 - beta1)
        moments.second.lerp_(grads.square(), 1 - beta2)
    if kept.second is not Format.FP32:
        moments.second = stored(moments.second, kept.second)
    # m / c1 / (sqrt(v) / c2 + eps), with both corrections taken out of the large tensors.
    correct1 = 1 - power(s.beta1, count[:, 0])[:, None]
    correct2 = (1 - power(s.beta2, count[:, 0])[:, None]).sqrt()
    below, rate, shorter = eps * correct2, -lr * correct2 / correct1, None
    if s.update_clip is not None:
        ratio = grads * correct2 / moments.second.sqrt().add_(below)
        shorter = update_clip_factor(ratio, s.update_clip, s.bounds, s.impl)
    if compiled:
        update = cpp.update(moments.first, moments.second, shorter, below[:, 0], rate[:, 0])
    else:
        update = moments.second.sqrt().add_(below)
        torch.div(moments.first, update, out=update)
        if shorter is not None:
            update.mul_(shorter)
        update.mul_(rate)
    if s.matrices:
        momentum = grads.lerp(moments.first, beta1)  # Nesterov's: with the gradient of this step once more
        for matrix in s.matrices:
            update[:, matrix.start : matrix.stop] = -lr * orthogonal_updates(momentum, matrix)
    update.addcmul_(flat, -lr * decay * decay_mask)
    return _commit(flat, update, moments, before, left, kept)


def _sgd(
    flat: Tensor, grads: Tensor, moments: Moments, s: Settings, decay_mask: Tensor, left: _Left, kept: Storage
) -> Tensor:
    lr, momentum, decay = (x.unsqueeze(1) for x in (s.lr, s.beta1, s.weight_decay))
    before = None if left.still is None else (moments.first.clone(), moments.second)
    moments.first.mul_(momentum).add_(grads)
    update = moments.first.mul(-lr).addcmul_(flat, -lr * decay * decay_mask)
    return _commit(flat, update, moments, before, left, kept)


def _lion(
    flat: Tensor, grads: Tensor, moments: Moments, s: Settings, decay_mask: Tensor, left: _Left, kept: Storage
) -> Tensor:
    """Chen et al. 2023, "Symbolic discovery of optimization algorithms": every weight moves by the learning rate.

    The sign of NaN is 0 in PyTorch: a weight whose momentum is NaN moves no more, and stays finite.
    """
    lr, beta1, beta2, decay = (x.unsqueeze(1) for x in (s.lr, s.beta1, s.beta2, s.weight_decay))
    before = None if left.still is None else (moments.first.clone(), moments.second)
    update = grads.lerp(moments.first, beta1).sign_().mul_(-lr).addcmul_(flat, -lr * decay * decay_mask)
    moments.first.lerp_(grads, 1 - beta2)
    return _commit(flat, update, moments, before, left, kept)


def _commit(
    flat: Tensor, update: Tensor, moments: Moments, before: tuple[Tensor, Tensor] | None, left: _Left, kept: Storage
) -> Tensor:
    """Apply the update, but for what is left alone: 0 there, and the moments as before."""
    moments.count = moments.count + 1
    if before is not None and left.still is not None:
        moments.first = torch.where(left.still, before[0], moments.first)
        moments.second = torch.where(left.still, before[1], moments.second)
        update = torch.where(left.still, 0.0, update)
    if left.skip_N is not None:
        moments.count = torch.where(left.skip_N, moments.count - 1, moments.count)
    if left.fixed_NP is not None:
        update = torch.where(left.fixed_NP, 0.0, update)
    if kept.weights is not Format.FP32:
        rounded = stored(flat + update, kept.weights)
        update = rounded - flat
        flat.copy_(rounded)
        return update
    flat.add_(update)
    return update


@dataclass
class LossScaler:
    """Loss scale of N runs: static where `dynamic` is False, else as in PyTorch's GradScaler.

    Halved (times `backoff`) when a gradient is not finite, doubled after `interval` finite steps,
    kept within [minimum, maximum]. All [N].
    """

    scale: Tensor
    good_steps: Tensor
    dynamic: Tensor
    interval: Tensor
    minimum: Tensor
    maximum: Tensor
    backoff: float = 0.5

    def update(self, overflow_N: Tensor) -> None:
        """Move the scale after a step whose gradients overflowed or did not."""
        good = torch.where(overflow_N, 0.0, self.good_steps + 1)
        grow = good >= self.interval
        factor = torch.where(overflow_N, self.backoff, torch.where(grow, 1 / self.backoff, 1.0))
        scale = torch.clamp(self.scale * factor, self.minimum, self.maximum)
        self.scale = torch.where(self.dynamic, scale, self.scale)
        self.good_steps = torch.where(grow, 0.0, good)
