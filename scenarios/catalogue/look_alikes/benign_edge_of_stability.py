"""The loss leaps and goes up and down: the run is at the edge of stability, and converges.

Failure: None. As the warm-up raises the rate, the loss leaps, in most runs to over twice its least value, falls
    back, and goes up and down until the rate is lowered. It ends where a run without the leap ends.
Mechanism: A step of gradient descent along a direction of curvature h multiplies what is left there by
    1 - rate * h, so that it grows where h > 2 / rate. Away from the minimum the loss is not quadratic: the
    excursion leads to a flatter place, and the curvature stays near 2 / rate from there on (Cohen et al. 2021).
Injection: From step 0 the rate is `factor` times the twin's, which comes to its edge later and without a leap.
Realism: Published on full batches, and on Adam with the curvature of its preconditioned steps; plain SGD with
    batches of 2,048 tokens here, and long enough for the decay to bring every run back. The leap is the
    catapult of Lewkowycz et al. 2020.
References: Reading the Curves (learning rate, spikes); Cohen et al. 2021, "Gradient descent on neural networks
    typically occurs at the edge of stability"; Cohen et al. 2022; Lewkowycz et al. 2020, "The large learning rate
    phase of deep learning: the catapult mechanism".
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_sgd_large_batch
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Factor(Knobs):
    """The rate over the twin's."""

    factor: float = 2.5


@register
class BenignEdgeOfStability(Scenario):
    """A rate that the curvature adapts to."""

    id = "benign_edge_of_stability"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("high_lr", "slow_divergence")
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    onset = None
    knobs = Factor()

    def base(self, setup: Setup) -> Setup:
        return chain_sgd_large_batch(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]
