"""Logs of other people: one file a format, one rule for names, and one for gaps, repeats and order."""

from trainwreck.evaluation.readers.formats import FORMATS, read
from trainwreck.evaluation.readers.log import Log
from trainwreck.evaluation.readers.names import parse_mapping

__all__ = ["FORMATS", "Log", "parse_mapping", "read"]
