"""Logs of third parties: one file a format, one rule for names, and one for gaps, repeats and order."""

from trainwreck.evaluation.logs.log import Log
from trainwreck.evaluation.logs.names import parse_mapping
from trainwreck.evaluation.logs.readers.formats import FORMATS, read

__all__ = ["FORMATS", "Log", "parse_mapping", "read"]
