"""The released form of a data set; see `release`."""

from trainwreck.evaluation.release.build import release

__all__ = ["release"]
