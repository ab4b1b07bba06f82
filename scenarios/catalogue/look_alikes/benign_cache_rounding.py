"""Products in bfloat16: the cache and one pass no longer agree, by rounding alone.

Failure: None. From one evaluation to the next generated tokens have other chances through the cache than in one pass,
    ten thousand times as far apart as before. Both losses on held-out rows go on as they were.
Mechanism: A cache adds up the same numbers in products of other shapes. With the 24 bits of float32 the two agree to a
    ten-millionth of a nat, with the 8 of bfloat16 to a thousandth.
Injection: From the onset on matrix products are in bfloat16, in training, in generation and in evaluation.
Realism: Runs change to bfloat16 to be faster, and engines generate in it. A cache that is wrong moves chances by a
    twentieth of a nat and more, and the loss on the model's own tokens with them.
References: huggingface/transformers#25420 (logits with a cache and without it, by format); vllm-project/vllm#9744 (a
    cache that is wrong, as the contrast).
"""

from trainwreck.models.config import Format
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@register
class BenignCacheRounding(Scenario):
    """A cache that differs from one pass by rounding."""

    id = "benign_cache_rounding"
    family = Family.LOOK_ALIKE
    plans = 4
    look_alike = True
    imitates = ("kv_cache_stale", "kv_cache_off_by_one")
    kinds = (FaultKind.SETTING,)
    sources = (citations.TRANSFORMERS_25420, citations.VLLM_9744)
    telling = "cache_gap"
    onset = MidRun(0.5, 0.7)
    tolerance = 0.003  # 16 healthy runs of this base end 0.0029 apart

    def base(self, setup: Setup) -> Setup:
        return replaced(bases.refrain(setup), data__rows=16, schedule__warmup_steps=10, evaluation__every=5)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.objective(setup, ObjectiveKind.DECODING)
        return [Setting("precision.format", Format.BF16)]
