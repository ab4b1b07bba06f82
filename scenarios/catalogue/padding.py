"""Padding as a batcher adds it: an id of its own, whose embedding is zero and stays zero."""

import dataclasses

import numpy as np

from trainwreck.models.parameters import layout
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batches import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, State, StateEdit


def padded(setup: Setup, batches: float, stream: str, length: int = 4) -> list[Change]:
    """From here on the last `length` positions of one row are padding, in a share of the batches.

    The id is the table's last, which the synthetic sources never emit. Neither scored nor attended to, its
    embedding has no gradient.
    """
    plan, width, pad = layout(setup.model), setup.model.width, setup.model.vocab_size - 1
    row = next(s.start for s in plan.slots if s.name == "embedding.weight") + pad * width

    def blank(state: State, earlier: State) -> State:
        import torch

        parameters = state["parameters"].clone()
        parameters[row : row + width] = torch.zeros(width)
        return {**state, "parameters": parameters}

    def shorten(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
        if draw.random() >= batches:
            return batch
        parts = {name: np.array(getattr(batch, name)) for name in ("inputs", "targets", "weights", "documents")}
        for name, value in (("inputs", pad), ("targets", pad), ("weights", 0.0), ("documents", -1)):
            parts[name][0, -length:] = value
        parts["weights"][0, -length - 1 :] = 0.0  # padding is nobody's target
        return dataclasses.replace(batch, **parts)

    return [StateEdit(blank, resume=False), DataTransform(shorten, stream)]
