"""What kind a run under a fault is: from its harm, on the side of the twin's loss that is declared, and its signature.

    harm                                                        signature    kind
    the loss ended, or was for a time, off the twin's           any          failing (compound, where there are two)
    none                                                        held         latent
    none                                                        not held     not shown
    none at the end, healthy runs too few to tell of the rest   held         failing, as injected

A run that ends better than its twin is not harmed. A loss that leaves the twin's for a time on the other side
(training loss under the twin's, while the run memorises) counts as harm where the signature holds.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.schema import UNDER_FAULT, UNHARMED, Harm, Outcome, RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.labels.visible import Departure
from trainwreck.evaluation.short_forms import count

LOSSES = ("loss", "validation_loss")


def outcome_of(run: Trace, gap: float | None, tolerance: float | None, side: Harm) -> str:
    """How a run ended against its twin. gap: final loss less the twin's, nats; None where one is not finite."""
    if not np.isfinite(run["loss"][-1]):
        return Outcome.NON_FINITE.value
    if gap is None or tolerance is None:
        return Outcome.RECOVERED.value
    off = {Harm.ABOVE: gap, Harm.BELOW: -gap, Harm.EITHER: abs(gap)}[side]
    outcome = Outcome.DAMAGED if off > tolerance else Outcome.RECOVERED
    return outcome.value


def moved(found: Sequence[Departure], side: Harm, held: bool | None) -> bool:
    """Whether a loss visibly left the twin's: on the side of the harm, or on either where the signature may hold."""
    for one in found:
        if one.view.signal.name in LOSSES:
            here = {
                Harm.ABOVE: ~one.lower,
                Harm.BELOW: one.lower | ~one.finite,
                Harm.EITHER: np.ones(len(one.steps), bool),
            }[side if held is False else Harm.EITHER]
            if (one.above & here).any():
                return True
    return False


def is_harmed(outcome: str, moved: bool | None) -> bool | None:
    """Whether a run was harmed, at its end or for a time; None where only the end is known, and is no worse."""
    return True if outcome != Outcome.RECOVERED.value else moved


def kind_of(harmed: bool | None, held: bool | None, *, compound: bool = False) -> RunKind:
    """The kind of a run under a fault. held: whether a signature holds; None where that is not known."""
    if harmed is False or (harmed is None and held is False):
        return RunKind.NOT_SHOWN if held is False else RunKind.LATENT
    return RunKind.COMPOUND if compound else RunKind.FAILING


def signature_held(row: Mapping[Any, Any]) -> bool | None:
    """Whether the signature of any of a run's causes holds, by its row; None where that is not known."""
    signatures = json.loads(row.get("signatures") or "{}")
    return any(signatures.values()) if signatures else None


def counted(rows: Iterable[Mapping[Any, Any]]) -> str:
    """How many runs under a fault are of each kind, and how many show their signature, in a line.

    >>> counted([{"kind": "failing", "signatures": '{"high_lr": true}'}, {"kind": "healthy"}])
    '1 run under a fault: 1 failing, 0 latent, 0 not shown; the signature holds in 1 of 1'
    """
    faulty = [row for row in rows if row["kind"] in UNDER_FAULT]
    kinds = Counter(row["kind"] for row in faulty)
    always = (RunKind.FAILING.value, *UNHARMED)
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in UNDER_FAULT if kinds[kind] or kind in always)
    held = [held for row in faulty if (held := signature_held(row)) is not None]
    judged = f"; the signature holds in {sum(held)} of {len(held)}" if held else ""
    return f"{count(len(faulty), 'run')} under a fault: {counts}{judged}"
