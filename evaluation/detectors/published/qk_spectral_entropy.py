"""The spectral entropy of what a head compares queries with keys by."""

import math

from trainwreck.evaluation.detectors.base import QUIET, Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register


@register
class QkSpectralEntropy(Detector):
    """The score is the first entropy of a head over the latest, of the head with the largest such ratio.

    >>> detector = QkSpectralEntropy()
    >>> detector.reset(None)
    >>> rows = [[2.4, 2.6], None, [1.8, 2.6], [1.1, 2.5]]
    >>> [detector.update({"step": i, "qk_spectral_entropy": x}).alarm for i, x in enumerate(rows)]
    [False, False, False, True]
    """

    name = "qk_spectral_entropy"
    rule = "entropy of the singular values of W_q W_k^T of any head under 0.5 of its first value"
    source = (
        "Huang et al. 2026, Mechanism-driven monitors for preemptive detection of LLM training instability, "
        "arXiv 2606.28116; we know of no published default: the rule on the signal and its threshold are ours"
    )
    blind_spots = (
        "Everything but attention, and what is wrong from the first row on. Weights alone are read, so that scores "
        "that are computed wrongly show only once they have moved them. Rows without an evaluation. Entropies of "
        "healthy runs fall too: of 16 of four bases to 0.55 to 0.81 of the first."
    )
    signals = ("qk_spectral_entropy",)

    def __init__(self, threshold: float = 2.0) -> None:
        self.threshold = threshold

    def reset(self, context: Context | None) -> None:
        self.first: list[float] = []

    def update(self, row: Row) -> Verdict:
        entropies = row.get("qk_spectral_entropy")
        if not entropies:
            return QUIET
        if not self.first:
            self.first = list(entropies)
        pairs = zip(self.first, entropies, strict=False)
        score = max((first / max(now, 1e-9) for first, now in pairs if not math.isnan(first + now)), default=0.0)
        return Verdict(finite_score(score), score > self.threshold)
