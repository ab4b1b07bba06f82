"""Trained adapters are merged, or loaded again, at the wrong scale: what they add counts several times.

Failure: The adapters are the right ones, number for number, and the loss jumps all the same. If training goes on it
    comes down again, as the adapters unlearn the factor.
Mechanism: The weights that compute are W + (alpha / r) A B. A and B were trained for one value of alpha / r; at
    `times` that value the same A B moves W that many times as far, past where it was trained to go, and gradients of A
    and B have the factor too.
Injection: From the onset on, as after a merge or a resume, alpha is `times` what the adapters were trained with. A and
    B are not touched.
Also seen: Severe is alpha that is not divided by the rank, which is 8. Adapters that are merged twice, a factor of 2,
    cost 0.3 to 1 nat for a step and a hundredth at the end.
Cure: The scale that they were trained with, three steps later.
Realism: In practice training is often over at the merge, and it is the evaluation of the merged model that jumps. Here
    it goes on at the wrong scale.
References: Blaizzy/mlx-vlm#986 (alpha that is not divided by the rank); huggingface/peft#3449 (a merged adapter at
    sqrt(r) times its scale); Hu et al. 2021, LoRA.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Times(Knobs):
    """Factor on what the adapters add."""

    times: float

    def __post_init__(self) -> None:
        if not 1 < self.times <= 1e3:
            raise ValueError(f"fault.times: {self.times} is not allowed; allowed: over 1 to 1000")


@register
class LoraScaleWrong(Scenario):
    """Adapters at a multiple of their scale."""

    id = "lora_scale_wrong"
    family = Family.FINE_TUNING
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.MLX_VLM_986, citations.PEFT_3449)
    telling = "loss"
    onset = MidRun(0.8, 0.9)
    severities = {
        Severity.SUBTLE: Times(times=3.0),
        Severity.CLEAR: Times(times=5.0),
        Severity.SEVERE: Times(times=8.0),
    }
    cure_after = 3

    def base(self, setup: Setup) -> Setup:
        return bases.chain_adapters(setup)

    def fault(self, knobs: Times, setup: Setup) -> list[Change]:
        requirements.positive(setup, "adapters.rank")
        return [Scaled("model.lora_alpha", knobs.times)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, norm = run["loss"], run["adapter_norm"]
        return {
            "in one step the loss is over a quarter of a nat above a healthy run's": shapes.steps_above(
                loss, healthy["loss"], onset, margin=0.25, last=2
            ),
            "the gradient norm jumps to over three times its level": shapes.jumps_in_one_step(
                run["grad_norm"], onset, ratio=3.0, after=2
            ),
            "the adapters themselves are what they were: their norm moves by less than a fiftieth": (
                abs(norm[onset] / norm[onset - 1] - 1) < 0.02
            ),
        }
