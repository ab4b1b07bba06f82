"""The vocabulary is grown, and the rows of the new tokens are far too large.

Failure: Tokens are added to a trained model. The first loss after that is several times that of guessing, though
    nearly all of the text is what it was; it takes dozens of steps to fall back.
Mechanism: The loss is log Z - z_y, and a row r drawn with spread s adds exp(h r) to Z, where h r has the spread s |h|.
    With a norm before the head |h|^2 is about the width, so that the largest of many new logits is far over all trained
    ones: new ids have the probability of all tokens together, and log Z and the loss rise by the same.
Injection: When the table grows, the new rows of embedding and head are drawn with standard deviation `std`; a healthy
    run has them at the mean of the old rows.
Also seen: The gradient norm jumps. What is read in new ids is too large for the residual stream, and is unlearnt last.
Cure: The new rows at the mean of the old ones, three steps later.
Realism: In a large model a spread of 0.02 is enough, since its trained logits all lie well below 0. Here they do not,
    and it takes that of `torch.nn.Embedding`, which is 1. Table and head are not tied.
References: huggingface/transformers#29219 (a huge loss after `resize_token_embeddings`); huggingface/transformers#33325
    (new rows from the distribution of the old ones).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import at_the_mean
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, State, StateEdit
from trainwreck.scenarios.spec.planned import GROWTH, growth_step
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Spread(Knobs):
    """Standard deviation of the new rows."""

    std: float

    def __post_init__(self) -> None:
        if not 0 < self.std <= 1e3:
            raise ValueError(f"fault.std: {self.std} is not allowed; allowed: over 0 to 1000")


@register
class NewRowsRandom(Scenario):
    """New rows of table and head at the wrong scale."""

    id = "new_rows_random"
    family = Family.FINE_TUNING
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.TRANSFORMERS_29219, citations.TRANSFORMERS_33325)
    telling = "log_z"
    onset = GROWTH
    severities = {
        Severity.SUBTLE: Spread(std=0.7),
        Severity.CLEAR: Spread(std=1.0),
        Severity.SEVERE: Spread(std=2.0),
    }
    cure_after = 3

    def base(self, setup: Setup) -> Setup:
        return bases.chain_grown(setup)

    def onset_step(self, seed: int, steps: int) -> int:
        return growth_step(seed, steps)

    def fault(self, knobs: Spread, setup: Setup) -> list[Change]:
        requirements.positive(setup, "growth.rows")
        return [Setting("model.init.new_rows_std", knobs.std)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, log_z = run["loss"], run["log_z"]
        return {
            "the first loss after the growth is over one and a half times that of step 0, which is that of guessing": (
                loss[onset] > 1.5 * loss[0]
            ),
            "log Z rises by over 3 in that step, so that new ids have over nine tenths of the probability": (
                log_z[onset] > log_z[onset - 1] + 3.0
            ),
            "thirty steps later the loss is under half of that": (
                loss[onset + 30 : onset + 50].max(initial=0.0) < 0.5 * loss[onset]
            ),
        }

    def cure(self, knobs: Spread, setup: Setup) -> list[Change]:
        model, old = replaced(setup, model__vocab_size=setup.growth.rows).model, setup.model.vocab_size

        def heal(state: State, earlier: State) -> State:
            return {**state, "parameters": at_the_mean(state["parameters"], model, old)}

        return [StateEdit(heal, resume=False)]
