"""What several ranks recorded of the same steps, put together as one record."""

import numpy as np

from trainwreck.evaluation.dataset.schema import BY_NAME, Axis

LARGEST = (
    "output_max", "layer_weight_max", "activation_max", "attention_logit_max",
    "nonfinite_grads", "nonfinite_weights", "skipped",
)  # fmt: skip
LEAST = ("attention_entropy_min",)


def combined(blocks: list[dict[str, np.ndarray]], tokens_SNW: np.ndarray) -> dict[str, np.ndarray]:
    """One record [S, N, K] a signal, of one from each rank: see `evaluation.schema` for what is done with each.

    Where all ranks record the same value, the result is bitwise that value.
    """
    share = np.moveaxis(tokens_SNW / tokens_SNW.sum(-1, keepdims=True), -1, 0)[..., None]  # [W, S, N, 1]
    result = {}
    for name in blocks[0]:
        parts = np.stack([block[name] for block in blocks])
        if BY_NAME[name].axis is Axis.RANKS:
            result[name] = np.concatenate(list(parts), -1)
        elif name in LARGEST:
            result[name] = parts.max(0)
        elif name in LEAST:
            result[name] = parts.min(0)
        else:
            result[name] = _mean(parts, share, BY_NAME[name].axis is Axis.AGES)
    return result


def _mean(parts: np.ndarray, share: np.ndarray, gaps: bool) -> np.ndarray:
    weight = np.broadcast_to(share, parts.shape)
    if gaps:  # not every rank has a token of every age
        weight = np.where(np.isnan(parts), 0.0, weight)
        parts = np.where(np.isnan(parts) & (weight.sum(0) > 0), 0.0, parts)
    total = weight.sum(0)
    with np.errstate(invalid="ignore"):  # infinities of both signs
        mean = (parts * weight).sum(0) / np.where(total > 0, total, 1.0)
    mean = np.where(total > 0, mean, np.nan)
    alike = ((parts == parts[0]) | (weight == 0)).all(0) & (weight[0] > 0)
    found: np.ndarray = np.where(alike, parts[0], mean).astype(np.float32)
    return found
