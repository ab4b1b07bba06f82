"""Rules of the playbook that fired on a run that is shown, with the first step of each."""

from typing import Any

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.playbook.playbook import RULES, Playbook
from trainwreck.evaluation.replay.rows import rows


def firings(trace: Trace) -> dict[int, int]:
    """Place in the playbook's list of each rule that fired on a run, to the first step at which it did."""
    detector, found = Playbook(), dict[int, int]()
    detector.reset(None)
    for row in rows(trace):
        detector.update(row)
        for place, (rule, held) in enumerate(zip(RULES, detector.held(), strict=True)):
            if held >= rule.hold and place not in found:
                found[place] = int(row["step"])
    return found


def listed() -> list[dict[str, Any]]:
    """The playbook's list as the page has it."""
    return [
        {"cause": rule.cause, "then": list(rule.then), "says": rule.says, "source": rule.source, "hold": rule.hold}
        for rule in RULES
    ]
