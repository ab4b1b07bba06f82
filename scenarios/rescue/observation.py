"""What a policy gets before a block. Loads no training, as processes of policies of others have it too."""

from dataclasses import dataclass

from trainwreck.evaluation.detectors.base import Row


@dataclass(frozen=True)
class Observation:
    """What a policy gets before a block.

    step: the next step to train. planned: steps of the run. rows: what was logged since the last observation, as the
    profile shows it; after a rollback from the checkpoint's step on. history: every row of the run as it is now.
    spent: in runs, of steps trained again and prices. answer: to the last question, in words; empty without one.
    """

    step: int
    planned: int
    rows: list[Row]
    history: list[Row]
    spent: float
    rolled_back: bool = False
    answer: str = ""
