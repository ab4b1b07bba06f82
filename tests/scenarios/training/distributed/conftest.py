"""A group without processes: what the other ranks send is given beforehand."""

from dataclasses import dataclass, field

import pytest

from trainwreck.scenarios.training.distributed.group import Group


@dataclass(frozen=True)
class Told(Group):
    """Gathers `others` in place of what other ranks would send; keeps what this one sent."""

    others: dict = field(default_factory=dict)  # rank to its tensor
    sent: list = field(default_factory=list)

    def gather(self, tensor):
        self.sent.append(tensor)
        return [tensor if rank == self.rank else self.others[rank] for rank in range(self.ranks)]


@pytest.fixture(scope="session")
def told():
    return Told
