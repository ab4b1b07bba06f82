"""A checkpoint that was saved after the NaN is resumed.

Failure: An earlier job went on after its first NaN and saved. The job that resumes from that checkpoint is
    NaN from its first step on, and so is each that resumes from what it saves.
Mechanism: Parameters and both moments of the checkpoint are NaN; no step leads from NaN to a number.
Injection: At the onset the run resumes from such a checkpoint: every weight and moment NaN, counters kept.
Cure: Checkpoints are checked before they are loaded: the non-finite one is refused and the last finite
    one, from before the onset, taken in its place.
Realism: Stands for checkpointing on a timer without a check of the loss. Simplified: the poisoned file is
    whole; in practice one shard may be.
References: Reading the Curves ("a poisoned checkpoint silently contaminates every run that later resumes
    from it").
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class PoisonedCheckpoint(Scenario):
    """NaN read back from disk."""

    id = "poisoned_checkpoint"
    family = Family.NUMERICS
    kinds = (FaultKind.STATE,)
    sources = (citations.READING_CURVES,)
    telling = "nonfinite_weights"
    cure_after = 3

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def poison(state: State, earlier: State) -> State:
            import torch

            spoilt = {k: torch.full_like(state[k], torch.nan) for k in ("parameters", "first", "second")}
            return {**state, **spoilt}

        return [StateEdit(poison)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        layers, bad = run["layer_weight_norm"].shape[1], run["nonfinite_weights"]
        speed = run["tokens_per_second"]
        return {
            "the clock pauses at the onset": speed[onset] < 0.5 * speed[:onset].min(initial=speed[0]),
            "the loss is not finite from there on": shapes.non_finite_from(run["loss"]) == onset,
            "so are weights of every layer at once, of none before": bad[onset] == layers and not bad[:onset].any(),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def refuse(state: State, earlier: State) -> State:
            import torch

            return state if bool(torch.isfinite(state["parameters"]).all()) else earlier

        return [StateEdit(refuse, since=-self.cure_after - 1)]
