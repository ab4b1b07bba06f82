"""OLMo-core's stability monitor: loss or gradient norm spikes out of a window of 128."""

import math

from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict, finite_score
from trainwreck.evaluation.detectors.registry import register
from trainwreck.evaluation.detectors.streaming import Window


@register
class OlmoStability(Detector):
    """The score is the larger z-score of the two signals.

    >>> detector = OlmoStability(window=2)
    >>> detector.reset(None)
    >>> [detector.update({"step": i, "loss": x, "grad_norm": None}).alarm for i, x in enumerate([1.0, 3.0, 8.5])]
    [False, False, True]
    """

    name = "olmo_stability"
    rule = "loss or gradient norm > mean + 6 standard deviations of its last 128 values, window full"
    source = "OLMo-core, StabilityMonitorCallback: window_size 128, threshold_std 6.0"
    blind_spots = (
        "NaN; the first 128 rows, which is a third of a small run and all of a thinly logged one; slow changes. "
        "The project records a spike rate and stops nothing. A NaN in the window silences it for 128 rows."
    )
    signals = ("loss", "grad_norm")

    def __init__(self, window: int = 128, threshold: float = 6.0) -> None:
        self.size, self.threshold = window, threshold

    def reset(self, context: Context | None) -> None:
        self.windows = {name: Window(self.size) for name in self.signals}

    def update(self, row: Row) -> Verdict:
        worst = 0.0
        for name, window in self.windows.items():
            value = row[name]
            if value is None:
                continue
            if window.full:
                mean, std = window.mean_and_std()
                z = (value - mean) / std if std >= 1e-10 else math.nan
                worst = max(worst, finite_score(z))
            window.push(value)
        return Verdict(worst, worst > self.threshold)
