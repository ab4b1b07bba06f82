"""The playbook's rules about pairs of answers: whether there is a margin at all, and what it is made of.

A margin of exactly 0 is none: policy and reference are the same on answers, or nothing of them is scored. A
margin grows where the right answer gains, and where it loses less than the wrong one.
"""

import math

from trainwreck.evaluation.detectors.playbook.evidence import both
from trainwreck.evaluation.detectors.playbook.rules import PAIRS, Rule, Seen

LN_2 = math.log(2.0)
LOST = 5.0  # nats that right answers are under their start
TOLD_APART = 20.0  # nats of margin


def _nothing_preferred(s: Seen) -> float:
    if math.isnan(s.preferred.loss):
        return math.nan
    return float(s.preferred.margin == 0.0 and abs(s.preferred.loss - LN_2) < 1e-4)


def _both_fall(s: Seen) -> float:
    return both(-s.preferred.chosen / LOST, s.preferred.margin / TOLD_APART)


PREFERENCE_RULES: tuple[Rule, ...] = (
    Rule(
        "dpo_stuck_at_log2", 3, _nothing_preferred,
        "the loss of pairs is ln 2 and their margin 0: answers are masked, or the reference is the policy",
        PAIRS, (), ("dpo_loss",),
    ),
    Rule(
        "dpo_chosen_falls", 3, _both_fall,
        "the margin grows, and right answers are less probable than at their start by five nats and more",
        PAIRS, (), ("chosen_logp",),
    ),
)  # fmt: skip
