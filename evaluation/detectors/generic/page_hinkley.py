"""The Page-Hinkley test."""

from collections.abc import Mapping

from trainwreck.evaluation.detectors.base import QUIET, Verdict, finite_score
from trainwreck.evaluation.detectors.generic.series import Gated, SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, register
from trainwreck.evaluation.extras import require


@register
class PageHinkley(SeriesDetector):
    """The score is the larger of the two test statistics; an alarm sets the library's test back.

    >>> detector = PageHinkley()
    >>> detector.reset(None)
    >>> found = [detector.update({"step": i, "loss": x}).alarm for i, x in enumerate([1.0] * 40 + [31.0] * 3)]
    >>> found.index(True)
    41
    """

    name = "page_hinkley"
    rule = "the sum of deviations from the running mean is over 50 from its least value or under its largest"
    source = "Page 1954, Continuous inspection schemes; river, PageHinkley: delta 0.005, threshold 50, 30 instances"
    blind_spots = (
        "One NaN or infinity silences it for ever; the first 30 rows. A threshold of 50 nats is much for a loss of a "
        "few: it takes a fall or a climb of one nat some fifty rows to get there, the fall of a healthy run too."
    )
    requires = ("river",)

    def begin(self) -> None:
        self.test = require("river.drift", EXTRA).PageHinkley()

    def step(self, values: Mapping[str, float]) -> Verdict:
        test = self.test
        test.update(values["loss"])
        if test._x_mean.n < test.min_instances:
            return QUIET
        # The library keeps the sums to itself; without them there would be no score but its flag.
        up, down = test._sum_increase - test._min_increase, test._max_decrease - test._sum_decrease
        return Verdict(finite_score(max(up, down)), bool(test.drift_detected))


@register
class PageHinkleyGated(Gated, PageHinkley):
    """The same of surprises.

    >>> detector = PageHinkleyGated()
    >>> detector.reset(None)
    >>> detector.update({"step": 0, "loss": float("nan")}).alarm
    True
    """

    name = "page_hinkley_gated"
    rule = "gate; then Page-Hinkley (delta 0.005, threshold 50) of the surprise in the loss"
    blind_spots = "The first 54 rows; slow changes, which the trend of the gate follows; a sum of 50 takes a while."
