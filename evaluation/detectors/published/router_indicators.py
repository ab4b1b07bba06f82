"""Whether routers still choose among experts: how even loads are, and how large a router's logits."""

import math
from collections import deque

from trainwreck.evaluation.detectors.base import QUIET, Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import number

ROWS = 8


@register
class RouterIndicators(Detector):
    """The score is the largest of the three, each over its threshold; all are means of eight rows.

    >>> detector = RouterIndicators()
    >>> detector.reset(None)
    >>> row = {"step": 0, "expert_load_max": 0.2, "router_logit_norm": 9.0}
    >>> [detector.update({**row, "expert_load_entropy": x}).alarm for x in [2.5] * 9 + [1.4] * 5].index(True)
    13
    """

    name = "router_indicators"
    rule = (
        "mean of 8 rows: entropy of loads 0.55 nats under its highest, largest load over 2.2 times its least, or norm "
        "of router logits over twice its first"
    )
    source = (
        "Huang et al. 2026, Mechanism-driven monitors for preemptive detection of LLM training instability, "
        "arXiv 2606.28116; we know of no published default: the rule on the signals and its thresholds are ours"
    )
    blind_spots = (
        "Runs without experts; the first 8 rows; routers that are uneven from the start, and experts that get their "
        "share of tokens and learn nothing from them."
    )
    signals = ("expert_load_entropy", "expert_load_max", "router_logit_norm")

    def __init__(self, fall: float = 0.55, share: float = 2.2, norm: float = 2.0) -> None:
        self.fall, self.share, self.norm = fall, share, norm

    def reset(self, context: Context | None) -> None:
        self.recent: deque[tuple[float, ...]] = deque(maxlen=ROWS)
        self.highest, self.least, self.first = -math.inf, math.inf, math.nan

    def update(self, row: Row) -> Verdict:
        values = tuple(number(row.get(name)) for name in self.signals)
        if not all(map(math.isfinite, values)):
            return QUIET
        self.recent.append(values)
        if len(self.recent) < ROWS:
            return QUIET
        entropy, load, norm = (sum(column) / ROWS for column in zip(*self.recent, strict=True))
        self.highest, self.least = max(self.highest, entropy), min(self.least, load)
        self.first = norm if math.isnan(self.first) else self.first
        ratios = (load / max(self.least, 1e-9) / self.share, norm / max(self.first, 1e-9) / self.norm)
        score = max((self.highest - entropy) / self.fall, *ratios)
        return Verdict(finite_score(score), score > 1.0)
