"""The learned policy. Loads no training, so that it runs in the processes of policies of others as well."""

from pathlib import Path
from typing import ClassVar

from trainwreck.scenarios.rescue.learned.model import Model, read_model, shipped
from trainwreck.scenarios.rescue.learned.situation import Situation
from trainwreck.scenarios.rescue.observation import Observation


class Learned:
    """Acts once, where trees that were trained on episodes promise most for it, and otherwise goes on.

    `trainwreck rescue DIR --learn` trains others; `about` of the weights says which data set these are from.
    """

    name: ClassVar[str] = "learned"
    rule: ClassVar[str] = (
        "where the loss, the gradients or the rate change, or playbook alarms, the action that trees promise most for, "
        "once; continue where they promise nothing"
    )
    weights: ClassVar[Model | None] = None  # None: those that ship with the package

    def __init__(self) -> None:
        self.model = self.weights or shipped()
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begin an episode. seed: not used."""
        self.situation = Situation(self.model.calls)
        self.causes: tuple[str, ...] = ()
        self.acted = False

    def act(self, seen: Observation) -> str:
        """What to do before the next block."""
        if self.acted:
            return "continue"
        row = self.situation.see(seen)
        self.causes = self.situation.causes
        chosen = None if row is None else self.model.choose(row)
        self.acted = chosen is not None
        return chosen or "continue"


def with_weights(path: str | Path) -> type[Learned]:
    """The same policy with the weights of a file that `rescue --learn` wrote. InputError for any other file.

    In a file `mine.py`, `Mine = with_weights(Path(__file__).with_name("mine.npz"))` is the policy `mine.py:Mine`: its
    process begins in an empty folder, so that the path has to be a full one.
    """
    return type("Learned", (Learned,), {"__doc__": Learned.__doc__, "weights": read_model(Path(path))})
