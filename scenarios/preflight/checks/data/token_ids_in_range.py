"""Ids that the tokenizer never emits.

Tables are padded in practice, so such an id need not crash: it trains a row that stands for nothing.
"""

import torch
from torch import Tensor, nn

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight


@check(
    Stage.DATA,
    rule="every id of the inputs, and every scored id of token targets, is 0 or more and under the vocabulary",
    source=citations.INSTABILITY,
)
def token_ids_in_range(subject: Preflight) -> Answer:
    """Compare the least and the largest id with the vocabulary, or with the token table without one."""
    ids = subject.ids
    if ids is None:
        return not_applicable("the inputs are no token ids [B, T]")
    tables = [m.num_embeddings for m in subject.model.modules() if isinstance(m, nn.Embedding)]
    size = subject.vocab_size or max(tables, default=None)
    name = "vocab_size" if subject.vocab_size else "rows of the largest table"
    if size is None:
        return not_applicable("no nn.Embedding in the model; say vocab_size")
    seen = {"inputs": ids}
    if subject.classified and subject.targets.shape == ids.shape and subject.shift is not None:
        seen["targets"] = subject.targets[subject.scored]
    for where, values in seen.items():
        wrong = (values < 0) | (values >= size)
        if wrong.any():
            return failed(
                f"{where}: {int(wrong.sum())} of {values.numel()} ids are outside 0 to {size - 1} "
                f"({name} {size}), from {int(values.min())} to {int(values.max())}"
            )
    return passed(f"ids {span(torch.cat([v.reshape(-1) for v in seen.values()]))}; {name} {size}")


def span(values: Tensor) -> str:
    """Least and largest."""
    return f"{int(values.min())} to {int(values.max())}"
