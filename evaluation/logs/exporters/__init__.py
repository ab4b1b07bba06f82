"""Runs of a data set in the formats of other tools: one file a format, and every number that was recorded."""

from trainwreck.evaluation.logs.exporters.formats import EXPORTERS, export

__all__ = ["EXPORTERS", "export"]
