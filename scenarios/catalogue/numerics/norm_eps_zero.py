"""A norm without eps divides by zero on a constant row.

Failure: LayerNorm with eps = 0. Nothing happens until a position comes whose features are all equal; it is
    0 / 0, and through attention and the weights' gradients everything is NaN within one step.
Mechanism: y = (x - mean) / sqrt(var + eps). On a constant row x - mean and var are both 0: with eps it is
    0, without 0 / 0 = NaN.
Injection: From the onset on, eps is 0. In all runs, healthy ones too, one batch in five has a few positions of
    padding, whose embedding is zero, as an embedding layer with a padding index has it; eps makes them harmless.
Signature: A single step from normal to NaN, in loss and all layers, at the first padded batch: no signal
    leads, and the largest attention logit and the activations are as ever the step before.
Cure: A checkpoint from before the onset, and eps.
Realism: Stands for eps lost in a port or rounded to zero in float16 (1e-8 is).
References: Recognizing the symptoms of training instability (NaN from dividing by zero); Debugging
    Training Instability (dividing by zero); Ba et al. 2016.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.catalogue.bases import chain_padded
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class NormEpsZero(Scenario):
    """0 / 0 in a norm."""

    id = "norm_eps_zero"
    family = Family.NUMERICS
    version = 2
    kinds = (FaultKind.SETTING,)
    sources = (citations.SYMPTOMS, citations.INSTABILITY)
    telling = "pad_share"
    cure_after = 15

    def base(self, setup: Setup) -> Setup:
        return chain_padded(setup, every=5)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("model.norm_eps", 0.0)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        dead = shapes.non_finite_from(run["loss"])
        if dead is None or dead < onset or run["pad_share"][dead] == 0.0:
            return False
        calm = run["loss"][dead - 1] < healthy["loss"][dead - 10 : dead].mean() + 0.5
        before = slice(dead - 20, dead)
        level = run["activation_max"][before].max() < 2 * healthy["activation_max"][before].max()
        layers = run["layer_weight_norm"].shape[1]
        return bool(calm and level and run["nonfinite_weights"][dead + 1] == layers)

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        restore = StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)
        return [Setting("model.norm_eps", setup.model.norm_eps), restore]
