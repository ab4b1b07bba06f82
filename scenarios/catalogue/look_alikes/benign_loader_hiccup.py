"""One slow step: the loader hiccups, and nothing else happens.

Failure: None. A step takes many times as long as any other, since the next shard was not read yet. The
    throughput drops for that step and is back at once; loss and gradients never know.
Mechanism: tokens / s = tokens / (t_compute + t_wait), and t_wait is over 0 once.
Injection: At the onset one step takes `slow` times as long on the modelled clock.
Realism: A cold cache, a checkpoint being written, a neighbour on the file system. What would be a
    failure is a wait that comes back at every step.
References: Reading the Curves (tokens per second, "catches data-loader stalls").
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, Clock, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Wait(Knobs):
    """How many usual steps the slow one lasts."""

    slow: float = 20.0


@register
class BenignLoaderHiccup(Scenario):
    """One slow step."""

    id = "benign_loader_hiccup"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("loader_stall",)
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "tokens_per_second"
    knobs = Wait()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Wait, setup: Setup) -> list[Change]:
        return [Clock(lambda seconds, since: seconds * knobs.slow if since == 0 else seconds)]
