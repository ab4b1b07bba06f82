"""What the latest evaluation says of tokens that a model wrote by itself; NaN in rows without one."""

import math

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.streaming import number


class Decoded:
    """Losses over that on given tokens, in nats, and what the cache and the rows beside do to a token's chances."""

    def __init__(self) -> None:
        self.first = self.early = self.late = self.cache = self.beside = math.nan

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        forced = number(row.get("forced_loss"))
        self.first = number(row.get("free_first_loss")) - forced
        self.early = number(row.get("free_early_loss")) - forced
        self.late = number(row.get("free_late_loss")) - forced
        self.cache = number(row.get("cache_gap"))
        self.beside = number(row.get("neighbour_gap"))
