"""An end of answers that is never scored: the model does not learn to stop.

Where padding has the id of the end token, masking padding masks every end.
"""

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight


@check(
    Stage.DATA,
    rule="the end token, where there is one, is the target of a scored position",
    source=citations.UNSLOTH_416,
)
def end_is_scored(subject: Preflight) -> Answer:
    """Look for the end token among the scored targets."""
    if subject.end is None:
        return not_applicable("no end token is named: end")
    if not subject.classified:
        return not_applicable("the targets are not class ids")
    ends = subject.scored & (subject.targets == subject.end)
    if not ends.any():
        where = "" if subject.ids is None else f", and {int((subject.ids == subject.end).sum())} times in the inputs"
        return failed(f"the end token, {subject.end}, is no scored target{where}")
    return passed(f"the end token, {subject.end}, is scored {int(ends.sum())} times")
