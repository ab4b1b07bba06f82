"""The signals that detectors read of a model and that trainers do not log, from anyone's PyTorch module."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trainwreck.evaluation.errors import InputError
from trainwreck.module_spectra import query_key_entropies, spectral_norms


class ModuleSignals:
    """Gradient and weight statistics of a module, by layer, as telemetry has them (docs/schema.md).

    layers: the transformer layers, in order; by default the entries of the longest `nn.ModuleList` or
    `nn.Sequential` in the module. Parameters that come before them count as the embedding, those after as the
    head, so that a list has layers + 2 entries (fewer where there is none of these). A parameter that is used
    twice counts where it comes first. optimizer: adds the learning rate of its first group.

        row = signals.measure()                  # after backward, before clipping and the optimizer's step
        optimizer.step()
        row |= signals.updates()                 # only with measure(updates=True)
        monitor.update({"loss": loss, **row}, step)

    Cost: one pass over gradients and weights and one transfer from the device a call; `updates` also holds a
    copy of the weights from one call to the other; spectra take singular values of every matrix of the layers, on the
    host and in float64, which grow with the cube of the width. InputError for a module without parameters, or for
    layers that are not in it.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        layers: Sequence[nn.Module] | None = None,
    ) -> None:
        self.optimizer = optimizer
        self.layers = list(layers) if layers is not None else _longest(module)
        self.groups = [group for group in _groups(module, self.layers) if group]
        if not self.groups:
            raise InputError(f"module: {type(module).__name__} has no parameters; allowed: one that has")
        self._before: list[list[Tensor]] | None = None

    @torch.no_grad()
    def measure(self, *, updates: bool = False, spectra: bool = False) -> dict[str, Any]:
        """grad_norm, nonfinite_grads, zero_grads, nonfinite_weights, lr, and norms and maxima by layer.

        A parameter without a gradient counts as one of zeros. updates: keep the weights for `updates`. spectra: add
        spectral_norm of each layer and, where attention is found (`module_spectra`), qk_spectral_entropy of each head;
        InputError where an attention does not say how many heads it has.
        """
        rows = [torch.stack([*_of_gradients(group), *_of_weights(group)]) for group in self.groups]
        # One transfer for all numbers.
        found = torch.stack([row.to(rows[0].device) for row in rows]).double().cpu()
        squares, nonfinite, zeros, count, weight_squares, weight_max, broken = found.unbind(1)
        row: dict[str, Any] = {
            "grad_norm": squares.sum().sqrt().item(),
            "nonfinite_grads": nonfinite.sum().item(),
            "zero_grads": (zeros.sum() / count.sum()).item(),
            "nonfinite_weights": broken.sum().item(),
            "layer_grad_norm": squares.sqrt().tolist(),
            "layer_weight_norm": weight_squares.sqrt().tolist(),
            "layer_weight_max": weight_max.tolist(),
        }
        if self.optimizer is not None:
            row["lr"] = float(self.optimizer.param_groups[0]["lr"])
        if spectra:
            row["spectral_norm"] = spectral_norms(self.layers)
            if entropies := query_key_entropies(self.layers):
                row["qk_spectral_entropy"] = entropies
        self._before = [[p.detach().clone() for p in group] for group in self.groups] if updates else None
        return row

    @torch.no_grad()
    def updates(self) -> dict[str, Any]:
        """layer_update_ratio: norm of the last update over norm of the weights before it, by layer.

        InputError where `measure(updates=True)` did not come before.
        """
        if self._before is None:
            raise InputError("updates: no weights are kept; allowed: after measure(updates=True)")
        ratios = []
        for group, before in zip(self.groups, self._before, strict=True):
            moved = sum(((p - old).float().square().sum() for p, old in zip(group, before, strict=True)))
            was = sum(old.float().square().sum() for old in before)
            ratios.append(torch.as_tensor(moved / was).sqrt())
        self._before = None
        return {"layer_update_ratio": torch.stack([r.to(ratios[0].device) for r in ratios]).cpu().tolist()}


def _of_gradients(group: Sequence[nn.Parameter]) -> list[Tensor]:
    """Sum of squares, non-finite elements, zeros, and elements."""
    squares, nonfinite, zeros, count = ([] for _ in range(4))
    for parameter in group:
        gradient = parameter.grad
        count.append(torch.tensor(float(parameter.numel()), device=parameter.device))
        if gradient is None:
            zeros.append(count[-1])
            continue
        dense = gradient.coalesce().values() if gradient.is_sparse else gradient
        squares.append(dense.float().square().sum())
        nonfinite.append((~torch.isfinite(dense)).sum().float())
        zeros.append((dense == 0).sum().float() + (parameter.numel() - dense.numel()))
    return [_sum(squares, group), _sum(nonfinite, group), _sum(zeros, group), _sum(count, group)]


def _of_weights(group: Sequence[nn.Parameter]) -> list[Tensor]:
    """Sum of squares, largest magnitude, and 1 where an element is not finite."""
    squares = torch.stack([p.float().square().sum() for p in group]).sum()
    largest = torch.stack([p.abs().max().float() for p in group]).max()
    broken = (~torch.isfinite(torch.stack([p.float().abs().max() for p in group]))).any().float()
    return [squares, largest, broken]


def _sum(parts: list[Tensor], group: Sequence[nn.Parameter]) -> Tensor:
    return torch.stack(parts).sum() if parts else torch.zeros((), device=group[0].device)


def _groups(module: nn.Module, chosen: Sequence[nn.Module]) -> Iterator[list[nn.Parameter]]:
    """Parameters of the embedding, of each layer, and of the head."""
    inside = {id(parameter) for layer in chosen for parameter in layer.parameters()}
    everything = list(module.parameters())
    missing = inside - {id(parameter) for parameter in everything}
    if missing:
        raise InputError(f"layers: {len(missing)} parameters are not in the module; allowed: layers of it")
    places = [i for i, parameter in enumerate(everything) if id(parameter) in inside]
    first = places[0] if places else len(everything)
    yield [p for p in everything[:first] if p.numel()]
    taken: set[int] = set()
    for layer in chosen:
        own = [p for p in layer.parameters() if id(p) not in taken and p.numel()]
        taken |= {id(p) for p in own}
        yield own
    yield [p for p in everything[first:] if id(p) not in inside and p.numel()]


def _longest(module: nn.Module) -> list[nn.Module]:
    """The entries of the longest list of modules that have parameters; none where no list has two."""
    lists = [
        [entry for entry in found if next(entry.parameters(), None) is not None]
        for found in module.modules()
        if isinstance(found, (nn.ModuleList, nn.Sequential))
    ]
    longest = max(lists, key=len, default=[])
    return longest if len(longest) > 1 else []
