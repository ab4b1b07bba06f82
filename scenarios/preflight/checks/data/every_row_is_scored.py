"""Rows that lose all of their labels: they are computed, and teach nothing.

A truncation that cuts answers off, or a template whose markers are not found, masks every target of a row.
"""

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.preflight.check import Answer, Stage, check, failed, not_applicable, passed
from trainwreck.scenarios.preflight.subject import Preflight


@check(
    Stage.DATA,
    rule="every row has a target that is scored",
    source=citations.TRL_6668,
)
def every_row_is_scored(subject: Preflight) -> Answer:
    """Count the rows all of whose targets are the ignore index."""
    if not subject.classified or subject.targets.ndim < 2:
        return not_applicable("the targets are not class ids [B, T]")
    counts = subject.scored.flatten(1).sum(1)
    rows, empty = len(counts), int((counts == 0).sum())
    if empty:
        return failed(f"{empty} of {rows} rows have no target that is scored: all are {subject.ignore_index}")
    return passed(f"each of {rows} rows has scored targets, the fewest {int(counts.min())}")
