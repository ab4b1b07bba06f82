"""Prompts stay cached while the weights change.

Failure: The longer training goes on, the worse are the texts that the model generates, though its loss on given tokens
    falls. After a restart of whatever generates, everything is well.
Mechanism: A prompt that was read once is not read again: its keys and values are found in the cache. They are of the
    weights of then. Queries of the weights of now find less and less in them.
Injection: From the onset on, what is cached of the held-out prompts, all but the last token of each, is that of the
    weights at the onset.
Also seen: Training, and the held-out loss on given tokens, are bitwise the twin's.
Cure: The cache is cleared whenever weights have changed.
Realism: Only generation is wrong. In reinforcement learning the samples that are trained on come from such a cache.
References: vllm-project/vllm#9744 (a prefix cache outlives the weights); vllm-project/vllm-omni#6739 (what that does to
    log-probabilities).
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class KvCacheStale(Scenario):
    """A cache of prompts older than the weights."""

    id = "kv_cache_stale"
    family = Family.DECODING
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.VLLM_9744, citations.VLLM_OMNI_6739)
    telling = "cache_gap"
    onset = MidRun(0.1, 0.2)
    cure_after = 100

    def base(self, setup: Setup) -> Setup:
        return bases.refrain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DECODING)
        return [Setting("decoding.flush", False)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)
        return {
            "the loss on given tokens stays within 0.1 nats of a healthy run's in the last quarter": (
                np.nanmax(abs(run["forced_loss"] - healthy["forced_loss"])[late]) < 0.1
            ),
            "that on its own tokens is over it by 0.3 nats and more there": (
                np.nanmin((run["validation_loss"] - run["forced_loss"])[late]) > 0.3
            ),
            "in one pass without a cache generated tokens have other chances": np.nanmin(run["cache_gap"][late]) > 0.1,
            "whatever rows are beside them": np.nanmax(run["neighbour_gap"]) < 0.01,
        }
