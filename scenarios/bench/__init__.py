"""Measurements against named peers, each a ratio taken in one run; see `measurements`."""

from trainwreck.scenarios.bench.measurements import measure
from trainwreck.scenarios.bench.table import Table

__all__ = ["Table", "measure"]
