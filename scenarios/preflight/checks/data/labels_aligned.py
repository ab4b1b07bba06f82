"""Whether each target is the token that it should be.

    inputs    a b c d e f          shift  1  the next token: targets are b c d e f g
    targets   c d e f g h          shift  2  one too far: what the check finds here
    targets   a b c d e f          shift  0  a copy: loss falls to nothing and nothing is learnt

Under a right pipeline the agreement at the shift is exact. At any other it is that of two tokens of
the text, the sum of p^2, some per cent.
"""

from torch import Tensor

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight

LEAST = 0.99  # of the scored targets; what is missing is noise in the labels
FURTHEST = 8


@check(
    Stage.DATA,
    rule=f"targets[t] is inputs[t + shift] for at least {LEAST:.0%} of the scored targets",
    source=citations.INSTABILITY,
)
def labels_aligned(subject: Preflight) -> Answer:
    """Agreement of the targets with the inputs at the shift, and at those around it."""
    ids, targets = subject.ids, subject.targets
    if subject.shift is None:
        return not_applicable("shift is None: targets are not tokens of the inputs")
    if ids is None or ids.shape != targets.shape or not subject.classified:
        return not_applicable("the targets are not tokens of the inputs' shape")
    scored = subject.scored
    if not scored.any():
        return failed(f"no target is scored: all are {subject.ignore_index}")
    shares = {k: agreement(ids, targets, scored, k) for k in range(-FURTHEST, FURTHEST + 1)}
    wanted, known = subject.shift, {k: share for k, share in shares.items() if share is not None}
    if known.get(wanted) is None:
        return not_applicable(f"rows of {ids.shape[1]} tokens are too short for a shift of {wanted}")
    share = known[wanted]
    evidence = f"targets[t] is inputs[t{wanted:+d}] for {share:.1%} of {int(scored.sum())} scored targets"
    if share >= LEAST:
        return passed(evidence)
    values = targets[scored].unique()
    if len(values) == 1:
        return failed(f"{evidence}: every target is {int(values[0])}")
    best = max(known, key=lambda k: known[k])
    if known[best] >= LEAST:
        return failed(f"{evidence}, but inputs[t{best:+d}] for {known[best]:.1%}: off by {best - wanted:+d}")
    return failed(f"{evidence} (at least {LEAST:.0%}), and at no other shift for more than {known[best]:.1%}")


def agreement(ids: Tensor, targets: Tensor, scored: Tensor, shift: int) -> float | None:
    """Share of scored targets[t] that are inputs[t + shift], where both are in the row; None without any."""
    length = ids.shape[1]
    first, last = max(0, -shift), min(length, length - shift)
    if first >= last:
        return None
    here = scored[:, first:last]
    same = targets[:, first:last] == ids[:, first + shift : last + shift]
    return float(same[here].float().mean()) if here.any() else None
