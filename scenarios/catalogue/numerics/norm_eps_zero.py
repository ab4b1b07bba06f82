"""A norm without eps divides by zero on a constant row.

Failure: LayerNorm with eps = 0. Nothing happens until a position comes whose features are all equal; it is
    0 / 0, and through attention and the weights' gradients everything is NaN within one step.
Mechanism: y = (x - mean) / sqrt(var + eps). On a constant row x - mean and var are both 0: with eps it is
    0, without 0 / 0 = NaN.
Injection: From the onset on, eps is 0. In all runs, healthy ones too, one batch in five has a few positions of
    padding, whose embedding is zero, as an embedding layer with a padding index has it; eps makes them harmless.
Also seen: No signal leads; the largest attention logit is as ever the step before.
Cure: A checkpoint from before the onset, and eps.
Realism: Stands for eps lost in a port or rounded to zero in float16 (1e-8 is).
References: Recognizing the symptoms of training instability (NaN from dividing by zero); Debugging
    Training Instability (dividing by zero); Ba et al. 2016.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_padded
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        dead = shapes.non_finite_from(run["loss"])
        at = len(run) - 2 if dead is None else dead
        before, last = slice(max(0, at - 20), max(1, at)), slice(max(0, at - 10), max(1, at))
        here, usual = (trace["activation_max"][before].max() for trace in (run, healthy))
        return {
            "the loss is NaN or infinite from a padded batch on": (
                dead is not None and dead >= onset and run["pad_share"][at] > 0
            ),
            "a step earlier it is a healthy run's": run["loss"][at - 1] < healthy["loss"][last].mean() + 0.5,
            "activations up to there are under twice a healthy run's": here < 2 * usual,
            "a step later all layers have weights that are NaN or infinite": (
                run["nonfinite_weights"][min(at + 1, len(run) - 1)] == run["layer_weight_norm"].shape[1]
            ),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        restore = StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)
        return [Undo(), restore]
