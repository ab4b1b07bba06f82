"""From a data set to what people look at."""

from trainwreck.evaluation.pages.report.build import write_report
from trainwreck.evaluation.pages.report.record import write_record

__all__ = ["write_record", "write_report"]
