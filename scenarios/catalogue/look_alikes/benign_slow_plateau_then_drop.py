"""A long flat start, then the loss drops: weights that begin very small.

Failure: None. In twenty steps the loss comes down to the entropy of the tokens' frequencies, and stays there for
    another twenty, while the twin is halfway down. Then it drops within some tens of steps, the gradient norm leaps,
    and the run ends where the twin does.
Mechanism: A logit is a product of weights, w_1 w_2 ..., and the gradient of each has the others as factors. From a
    spread of e the product grows by itself, and takes ln(1/e) / rate steps to be felt: near 0 is a saddle, which
    gradient descent leaves slowly and then all at once. The biases of the head, which are no product, learn the
    frequencies meanwhile.
Injection: From step 0 all weights start at `factor` times their spread. The base is trained by SGD with momentum, at a
    third of the usual rate and for longer.
Realism: Such plateaus are known of deep linear networks, of small initialisation and of gradient descent. Norms hide
    the scale of a stream, so that it has to be under the square root of their epsilon to be felt here, and Adam's
    steps do not shrink with the gradient. Plateaus of larger models come of what is hard to learn, as in
    benign_late_drop.
References: Reading the Curves (loss plateau early, as the contrast); Saxe et al. 2014, "Exact solutions to the
    nonlinear dynamics of learning in deep linear neural networks"; Jacot et al. 2021, "Saddle-to-saddle dynamics in
    deep linear networks".
"""

from dataclasses import dataclass

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_sgd_clipped
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Spread(Knobs):
    """Standard deviation of the initial weights over the usual."""

    factor: float = 1e-5


@register
class BenignSlowPlateauThenDrop(Scenario):
    """Weights that start very small, and a saddle that is left late."""

    id = "benign_slow_plateau_then_drop"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("lr_too_low", "warmup_too_long")
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    plans = 3
    onset = None
    knobs = Spread()

    def base(self, setup: Setup) -> Setup:
        return replaced(chain_sgd_clipped(setup), optimizer__lr=0.1, steps=500)

    def fault(self, knobs: Spread, setup: Setup) -> list[Change]:
        return [Scaled(f"model.init.{of}_std", knobs.factor) for of in ("embedding", "matrix", "head")]
