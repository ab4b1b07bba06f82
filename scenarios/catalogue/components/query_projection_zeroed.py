"""A layer's query weights are zero: it attends to all that it may see alike.

Failure: One layer's query projection puts out zeros. What its heads look at no longer depends on
    anything; the other layers work on.
Mechanism: With q = 0 every score q' k / sqrt(d) is 0, so softmax gives 1 / n to each of the n allowed
    keys and the entropy is at its maximum ln n. The key weights get no gradient: d(q' k)/dk = q = 0.
Injection: From the onset on, weights and biases of the queries of `layer` compute as zeros. The
    trained ones lie behind them and get no gradient.
Cure: The trained weights compute again, a few steps after the onset.
Realism: Stands for a shard that was never loaded, and for a fused projection split at the wrong
    column. From the other layer's heads the model wins most of it back, so many runs end as their twins.
References: Debugging training (attention entropy); Debugging Training Instability ("replace or isolate
    suspect layers"); Vaswani et al. 2017.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization, projections
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, ParametrizationEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Which(Knobs):
    """The layer, counted from 0."""

    layer: int = 0


@register
class QueryProjectionZeroed(Scenario):
    """Queries of one layer are zero."""

    id = "query_projection_zeroed"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.INSTABILITY)
    telling = "head_entropy"
    knobs = Which()
    cure_after = 12

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Which, setup: Setup) -> list[Change]:
        if not 0 <= knobs.layer < setup.model.layers:
            raise InputError(f"fault.layer: {knobs.layer} is not allowed; allowed: 0 to {setup.model.layers - 1}")

        def wipe(parametrization: Parametrization, plan: Layout) -> Parametrization:
            queries = projections(plan, knobs.layer, setup.model.heads)[:, 0]
            return parametrization.scaled(queries, 0.0, plan.size)

        return [ParametrizationEdit(wipe)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        logits = run["attention_logit_max"]
        heads = run["head_entropy"][onset:].reshape(len(run) - onset, logits.shape[1], -1)
        spread = heads.max(2) - heads.min(2)
        uniform = [shapes.pinned_at(of_layer, 0.0, tolerance=1e-3) for of_layer in spread.T]
        layer = int(np.argmax(uniform))
        entropy, usual = (trace["attention_entropy"][onset:, layer].mean() for trace in (run, healthy))
        return {
            "in one layer alone all heads have one and the same entropy": sum(uniform) == 1,
            "it is over the twin's": entropy > usual + 0.1,
            "the layer's largest score collapses to 0": shapes.collapses_to_zero(logits[:, layer], onset),
        }
