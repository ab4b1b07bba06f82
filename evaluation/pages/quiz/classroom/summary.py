"""What a teacher asks after a class: which runs were got wrong, what was named instead, how late people were."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.pages.quiz.answers import Answer
from trainwreck.evaluation.pages.quiz.classroom.scores import Results
from trainwreck.evaluation.pages.quiz.quiz import label
from trainwreck.evaluation.replay.profiles import visible_step
from trainwreck.evaluation.scoring.equivalence_sets import shipped
from trainwreck.evaluation.scoring.metrics.diagnosis import allowed

MOST_NAMES = 3
OF_FAILING = (
    "in_time", "too_early", "too_late_or_missed", "mean_delay", "mean_delay_visible", "right_cause", "right_within_set",
)  # fmt: skip
NOT_NAMED = "(no cause named)"


def run_rows(found: Results) -> list[dict[str, Any]]:
    """One row a run, the one that the largest share got wrong first.

    wrong: who missed it, came too early or too late, or stopped what is no failure. mean_delay, mean_delay_visible:
    steps from the onset and from the first visible step to the stops that were in time. right_cause: of those in
    time, who named a true cause first; right_within_set: or one that the profile does not tell from it.
    """
    rows = [_run_row(found, run_id) for run_id in found.runs["run_id"]]
    return sorted(rows, key=lambda row: (-row["wrong"] / max(1, row["answered"]), row["scenario"], row["run_id"]))


def confusions(found: Results) -> list[dict[str, Any]]:
    """Pairs of a true cause and what was named first instead, at stops in time, the most frequent first."""
    pairs: Counter[tuple[str, str]] = Counter()
    for run_id, answers in found.answers.items():
        row = {name: label(value) for name, value in found.runs.loc[run_id].items()}
        if row["kind"] not in FAILURES:
            continue
        for answer in _in_time(row, answers):
            name = answer.named[0] if answer.named else NOT_NAMED
            if name not in allowed(row["cause"]):
                pairs[row["cause"], name] += 1
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return [{"cause": cause, "named": name, "times": times} for (cause, name), times in ranked]


def _run_row(found: Results, run_id: str) -> dict[str, Any]:
    row = {name: label(value) for name, value in found.runs.loc[run_id].items()}
    answers, visible = found.answers[run_id], visible_step(row, found.profile)
    facts = {
        "run_id": run_id,
        "scenario": row["scenario"] or "",
        "kind": row["kind"],
        "severity": row["severity"] or "",
    }
    stops = [answer for answer in answers if answer.step is not None]
    facts |= {
        "onset": row["onset_step"],
        "visible": visible,
        "answered": len(answers),
        "stopped": len(stops),
    }
    blank = dict.fromkeys(OF_FAILING)
    if row["kind"] not in FAILURES or visible is None:
        return facts | blank | {"wrong": len(stops), "named_instead": _most([n for a in stops for n in a.named[:1]])}
    timely = _in_time(row, answers)
    early = [answer for answer in stops if answer.step is not None and answer.step < row["onset_step"]]
    firsts = [answer.named[0] for answer in timely if answer.named]
    within = allowed(row["cause"], shipped(found.profile))
    return facts | {
        "in_time": len(timely),
        "too_early": len(early),
        "too_late_or_missed": len(answers) - len(timely) - len(early),
        "mean_delay": _mean_from(row["onset_step"], timely),
        "mean_delay_visible": _mean_from(visible, timely),
        "right_cause": sum(name in allowed(row["cause"]) for name in firsts),
        "right_within_set": sum(name in within for name in firsts),
        "wrong": len(answers) - len(timely),
        "named_instead": _most([name for name in firsts if name not in allowed(row["cause"])]),
    }


def _in_time(row: Any, answers: Sequence[Answer]) -> list[Answer]:
    no_return = label(row["no_return_step"])
    end = label(row["last_step"]) if no_return is None else no_return
    return [answer for answer in answers if answer.step is not None and row["onset_step"] <= answer.step < end]


def _mean_from(start: int, answers: Sequence[Answer]) -> float | None:
    return fmean(max(0, answer.step - start) for answer in answers if answer.step is not None) if answers else None


def _most(names: Sequence[str]) -> str:
    return ", ".join(f"{name} ({times})" for name, times in Counter(sorted(names)).most_common(MOST_NAMES))
