"""A tied head comes back from a checkpoint as a matrix of its own.

Failure: In a model whose head is its token table the checkpoint holds the table once. The loader makes two parameters
    of it, and the head, which no file has, starts anew. The loss of the first resumed step is near that of step 0;
    the head then learns what the table knew, and from there on the two go different ways.
Mechanism: Tied, logits are E h, with the table E as the head, and the gradient of E is the sum of both uses. After
    the resume logits are W h with a small random W: nearly equal logits, so that the loss is near ln V. Nothing
    brings W and E together again.
Injection: At the onset the run resumes with the head apart from the table. Weights, moments and step count are the
    checkpoint's; the head's weights are drawn from the initial distribution, and their moments are 0.
Also seen: The head's weight norm goes up by the norm of a matrix that was not there.
Cure: Head and table are one parameter again three steps later: the table.
Realism: In NeMo-Automodel#2571 the two were apart before the save, and the loader put the table in the trained head's
    place; in transformers#43429 a head that was not in the checkpoint was drawn at random, as here. A small head is
    learnt again in some thirty steps.
References: NVIDIA-NeMo/Automodel#2571 (a loss spike at the first resumed step of models with a tied head);
    huggingface/transformers#43429 (tie lost at loading, head drawn at random); Press and Wolf 2017.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, StateEdit, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class HeadUntiedAtResume(Scenario):
    """Two parameters where there was one."""

    id = "head_untied_at_resume"
    family = Family.STATE
    plans = 3
    kinds = (FaultKind.VARIANT, FaultKind.STATE)
    sources = (citations.AUTOMODEL_2571, citations.TRANSFORMERS_43429)
    telling = "output_max"
    cure_after = 3

    def base(self, setup: Setup) -> Setup:
        return bases.echo_tied(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.tied", False), StateEdit(lambda state, earlier: state)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        head = run["layer_update_ratio"][:, -1]
        return {
            "the loss doubles at the first resumed step": shapes.jumps_in_one_step(
                run["loss"], onset, ratio=2.0, after=2
            ),
            "the largest logit collapses there": shapes.drops_in_one_step(run["output_max"], onset, ratio=0.5, after=2),
            "the head's update ratio jumps fivefold, to that of a young matrix": (
                shapes.jumps_in_one_step(head, onset, ratio=5.0)
            ),
            "the loss comes down again": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.2),
        }
