"""What the latest row says of runs of other objectives; NaN where it has nothing of theirs."""

import math

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.streaming import number


class Decoded:
    """Of tokens that a model wrote: losses over that on given ones, and what cache and rows beside do; nats."""

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


class Preferred:
    """Of pairs of answers: the loss, and log-probabilities over the reference's, in nats."""

    def __init__(self) -> None:
        self.loss = self.margin = self.chosen = math.nan

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        self.loss, self.margin = number(row.get("dpo_loss")), number(row.get("margin"))
        self.chosen = number(row.get("chosen_logp"))
