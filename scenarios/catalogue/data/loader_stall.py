"""The input pipeline stalls: steps take many times as long, and nothing else happens.

Failure: The loader can't keep up. Every few steps the accelerator waits for data, throughput drops to a
    fraction of what it was, and the loss knows nothing of it.
Mechanism: A step takes max(t_compute, t_data) once the queue is empty. With a loader that delivers a
    batch in r steps' time, throughput is 1 / r, in bursts as long as the queue was.
Injection: From the onset on the queue fills with `burst` batches, which are taken at full speed, and the
    next step waits until the loader has as many again, at `slowdown` steps' time each.
Cure: More loader workers: the wait is gone from some steps after the onset on.
Realism: On a modelled clock: nothing is waited for, so the run costs no time. Stands for cold
    caches, a slow file system, too few workers.
References: Reading the Curves ("tokens per second, as a cheap sanity check that catches data-loader
    stalls ... the moment throughput drops").
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, Clock, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Stall(Knobs):
    """Batches in the queue when it is full, and the loader's time for one, in steps."""

    burst: int = 4
    slowdown: float = 5.0


@register
class LoaderStall(Scenario):
    """Waiting for data."""

    id = "loader_stall"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "tokens_per_second"
    knobs = Stall()
    cure_after = 32

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Stall, setup: Setup) -> list[Change]:
        def wait(seconds: float, since: int) -> float:
            return seconds + (knobs.burst * (knobs.slowdown - 1) if since % knobs.burst == 0 else 0.0)

        return [Clock(wait)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        def throughput(steps: slice) -> float:
            return float(run["tokens"][steps].sum() / run["step_seconds"][steps].sum())

        parts = [throughput(slice(a, a + 40)) for a in range(onset, len(run) - 39, 40)]
        mine, other = (t["loss"][-75:].mean() for t in (run, healthy))
        return {
            "from the onset on throughput over forty steps is under half of its level": (
                max(parts, default=0.0) < 0.5 * throughput(slice(0, onset))
            ),
            "the loss ends within 0.1 nats of a healthy run's": abs(mine - other) < 0.1,
        }
