"""Measurements against named peers, each a ratio taken in one run; see `measure`."""

from trainwreck.scenarios.bench.table import Table, measure

__all__ = ["Table", "measure"]
