"""Whether what a position says depends on the tokens after it.

    inputs    a b c d e f g h          inputs    a b c d x f g h
    logits    . . . . . . . .          logits    . . . . ! ! ! !     as it should be
                                                 . . . ! ! ! ! !     the mask is one too far

A model that is asked for the next token and can see it needs to learn nothing else.
"""

import torch

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight

ROUNDING = 1e-4  # of the largest logit; sums over masked zeros may be taken in another order


@check(
    Stage.MODEL,
    rule="another token at a position changes no logit before it",
    source=f"{citations.INSTABILITY}; Karpathy 2019, A Recipe for Training Neural Networks",
)
def future_is_hidden(subject: Preflight) -> Answer:
    """Change the token two thirds into every row, in evaluation mode, and look at the logits before it."""
    ids = subject.ids
    if ids is None or subject.shift is None or ids.shape != subject.targets.shape or ids.shape[1] < 2:
        return not_applicable("not asked for the next token of its inputs")
    if subject.routed:
        return not_applicable("an expert that is full drops tokens of other rows")
    place = max(1, 2 * ids.shape[1] // 3)
    other = torch.where(ids[:, place] == ids[:, 0], ids[:, place - 1], ids[:, 0])  # ids that the batch has
    if bool((other == ids[:, place]).all()):
        return not_applicable("every row repeats one token: none can be changed")
    changed = ids.clone()
    changed[:, place] = other
    model = subject.copy().eval()
    with torch.no_grad():
        before, after = (
            subject.logits(subject.output(model, subject.with_ids(x)), subject.targets).reshape(*ids.shape, -1)
            for x in (ids, changed)
        )
    moved = (after - before).abs().amax((0, 2)) > ROUNDING * before.abs().max().clamp(min=1e-30)
    early = moved[:place].nonzero()
    if len(early):
        return failed(f"another token at position {place} changes logits from position {int(early[0])} on")
    if not moved[place:].any():
        return failed(f"another token at position {place} changes nothing at all: the model does not see its inputs")
    return passed(f"another token at position {place} changes logits from there on, and none before")
