"""A head that should be the token table, and is a parameter of its own.

A tie is lost where one of the two is replaced after it was made, or where a loader makes two parameters of one.
"""

import torch
from torch import nn

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight


@check(
    Stage.MODEL,
    rule="parameters that are meant to be one (`tied`) are one",
    source=citations.AUTOMODEL_2571,
)
def tied_weights_are_one(subject: Preflight) -> Answer:
    """Look both names up, and compare what they lead to."""
    if subject.tied is None:
        return not_applicable("no tied parameters are named: tied")
    first, second = (named(subject.model, name) for name in subject.tied)
    if first is None or second is None:
        return failed(f"the model has no parameter {subject.tied[0 if first is None else 1]!r}")
    both = " and ".join(subject.tied)
    if first is second:
        return passed(f"{both} are one parameter")
    if first.shape != second.shape:
        return failed(f"{both} are two parameters, of shapes {list(first.shape)} and {list(second.shape)}")
    with torch.no_grad():
        apart = float((first - second).norm() / first.norm())
    return failed(f"{both} are two parameters, apart by {apart:.2g} of the first one's norm")


def named(model: nn.Module, name: str) -> nn.Parameter | None:
    """A parameter by its name, the same one under each of its names."""
    return dict(model.named_parameters(remove_duplicate=False)).get(name)
