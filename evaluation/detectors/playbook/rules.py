"""What a rule of the playbook is, and the documents that teach them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.playbook.bookkeeping import Bookkeeping
from trainwreck.evaluation.detectors.playbook.evidence import Evidence
from trainwreck.evaluation.detectors.playbook.integrity import Integrity
from trainwreck.evaluation.detectors.playbook.objectives import (
    Criticised,
    Decoded,
    Denoised,
    Preferred,
    Retrieved,
    Rewarded,
    Routed,
)
from trainwreck.evaluation.detectors.streaming import number

CURVES = "Debugging Transformer Training Runs: Reading the Curves"
INSTABILITY = "Debugging Training Instability"
TRAINING = "Debugging training: interpreting training curves and gradient statistics"
SYMPTOMS = "Recognizing the early signs of training instability"
DIVERGENCE = "Debugging Divergent Loss During Training"
LOGS = "threads on logs that are wrong (huggingface/transformers#35204, #13619; radixark/miles_diffusion#35)"
MASKS = "threads on masks of labels (huggingface/trl#6668, unslothai/unsloth#416, NVIDIA-NeMo/Megatron-Bridge#3359)"
GRADIENTS = "threads on losses whose gradient is not theirs (linkedin/Liger-Kernel#968, #1298)"
ADAPTERS = "threads on adapters without a gradient (huggingface/peft#1142)"
FLOAT8 = "threads on scales of float8 (NVIDIA/TransformerEngine#567, #982)"
CACHES = "threads on caches of keys and values (vllm-project/vllm#9744, tenstorrent/tt-xla#3899, skyzh/tiny-llm#46)"
PAIRS = "threads on pairs of answers (Yifan-Song793/ETO#14, huggingface/trl#800)"
ROUTERS = "Fedus et al. 2021, Switch Transformers"
INDEXES = "Guu et al. 2020, REALM"
DIFFUSION = "Ho et al. 2020, Denoising diffusion probabilistic models; Hang et al. 2023, Min-SNR weighting"
REWARDS = "Gao et al. 2022, Scaling laws for reward model overoptimization; Schulman et al. 2017, PPO"
GROUPS = "Shao et al. 2024, DeepSeekMath; a thread on groups that are rewarded alike (modelscope/ms-swift#5890)"
CRITICS = "Cobbe et al. 2021, Phasic policy gradient"
EXPOSURE = "Bengio et al. 2015, Scheduled sampling"

STRONGEST = 100.0


@dataclass(frozen=True)
class Seen:
    """All that the playbook knows after a row."""

    curves: Evidence
    facts: Integrity
    log: Bookkeeping
    decoded: Decoded = field(default_factory=Decoded)
    preferred: Preferred = field(default_factory=Preferred)
    routed: Routed = field(default_factory=Routed)
    retrieved: Retrieved = field(default_factory=Retrieved)
    denoised: Denoised = field(default_factory=Denoised)
    rewarded: Rewarded = field(default_factory=Rewarded)
    criticised: Criticised = field(default_factory=Criticised)

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        # The loss of rewards is none of tokens: its level says nothing, and it may be 0 or less.
        rewarded = math.isfinite(number(row.get("kl"))) and math.isfinite(number(row.get("loss")))
        of_tokens = {**row, "loss": None, "validation_loss": None} if rewarded else row
        for name, part in vars(self).items():
            part.see(of_tokens if name in ("curves", "facts") else row)


@dataclass(frozen=True)
class Rule:
    """One line of the playbook.

    strength: how far the evidence goes, 1 at the rule's threshold, NaN where it has none. hold: rows for
    which it must have stayed at 1 or more, as far as was logged, before the rule fires. then: causes that
    the same picture fits less well, in order. says: the rule in words. source: the document that teaches
    it. reads: signals without any of which a row says nothing either way, so that a logger that shows them
    now and then is waited for. most: a larger strength counts as this.
    """

    cause: str
    hold: int
    strength: Callable[[Seen], float]
    says: str
    source: str
    then: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    most: float = STRONGEST
