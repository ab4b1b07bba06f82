"""One self-contained HTML page of a data set."""

from trainwreck.evaluation.report.build import write_report

__all__ = ["write_report"]
