"""The answer about one run: verdict, evidence, causes, nearest labelled runs, what to do next, what stays unknown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.diagnosis.candidates import (
    Candidate,
    Evidence,
    candidates,
    evidence,
    measured_profile,
    specific,
    told_apart_by,
)
from trainwreck.evaluation.diagnosis.findings import Finding, findings
from trainwreck.evaluation.diagnosis.nearest import Near, nearest
from trainwreck.evaluation.diagnosis.observed import Observed
from trainwreck.evaluation.diagnosis.reach import Reach, reach
from trainwreck.evaluation.pages.numbers import written
from trainwreck.evaluation.short_forms import LINES, AsText

WRONG, UNCLEAR, NOTHING = VERDICTS = ("wrong", "unclear", "nothing")
ANSWERS = {
    WRONG: "something is wrong",
    UNCLEAR: "perhaps something is wrong; no rule that decides holds",
    NOTHING: "nothing wrong that this log could show",
}
ALIKE = 0.6  # distance under which a labelled run is like the log; at 1 it is as like as a flat line
MOST_NAMED = 6  # causes in one line of the short form

Pages = Callable[[str], Mapping[str, Any]]
"""The page of a scenario by its id, with title, telling, checked, sections and proven."""


@dataclass(frozen=True, repr=False)
class Diagnosis(AsText):
    """What a log says of one run. `text()` for people, `to_dict()` for programs.

    verdict: "wrong", "unclear" or "nothing". since: the step from which on, None for nothing. rows: those around it.
    findings: rules on the curves. evidence: rules of the playbook. near: labelled runs that are like this one.
    log_next: signal that was not logged, to the causes whose most diagnostic signal it is. pages: of the candidates and
    of those that are not told from them.
    """

    name: str
    run: Observed
    verdict: str
    since: int | None
    findings: list[Finding]
    evidence: list[Evidence]
    candidates: list[Candidate]
    near: list[Near]
    log_next: dict[str, list[str]]
    pages: dict[str, Mapping[str, Any]]
    reach: Reach

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows around the step since which it is wrong; none where nothing is."""
        return [] if self.since is None else self.run.around(self.since)

    def confusable(self, one: Candidate) -> list[dict[str, Any]]:
        """Causes that what was logged does not tell from a candidate: the poorest profile that does, None where none
        does, and the most diagnostic signal of each."""
        profile = measured_profile(self.run.profile)
        return [
            {"cause": other, "told_by": told_apart_by(profile, one.cause, other), "telling": self._telling(other)}
            for other in one.alike
        ]

    def _telling(self, cause: str) -> str | None:
        return self.pages[cause]["telling"] if cause in self.pages else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; numbers that are not finite are "nan", "inf" and "-inf"."""
        steps = self.run.steps
        return {
            "run": self.name,
            "verdict": self.verdict,
            "answer": ANSWERS[self.verdict],
            "since": self.since,
            "log": {
                "rows": len(steps),
                "first_step": int(steps[0]),
                "last_step": int(steps[-1]),
                "interval": written(self.run.interval),
                "signals": list(self.run.signals),
                "profile": self.run.profile,
            },
            "findings": [one.to_dict() for one in self.findings],
            "playbook": [one.to_dict() for one in self.evidence],
            "rows": [{name: v if name == "step" else written(v) for name, v in row.items()} for row in self.rows],
            "candidates": [self._candidate(one) for one in self.candidates],
            "sets_of": measured_profile(self.run.profile),
            "nearest": [one.to_dict() for one in self.near],
            "log_next": self.log_next,
            "not_shown": self.reach.to_dict(),
        }  # fmt: skip

    def _candidate(self, one: Candidate) -> dict[str, Any]:
        page = self.pages.get(one.cause, {})
        return {
            "cause": one.cause,
            "score": round(one.score, 3),
            "title": page.get("title"),
            "not_told_from": self.confusable(one),
            "why": [{"step": step, "says": says} for step, says in one.why],
            "look_for": list(page.get("checked", ())),
            "telling": page.get("telling"),
            "cure": page.get("sections", {}).get("Cure"),
            "commands": self.commands(one.cause),
        }

    def commands(self, cause: str) -> list[str]:
        """What to run for a cause: its page, and the program that shows it if it is proven."""
        page = self.pages.get(cause)
        if page is None:
            return []
        return [f"trainwreck show {cause}", *([f"trainwreck reproducer {cause}"] if page["proven"] else [])]

    def text(self) -> str:
        """The answer in at most 30 lines."""
        steps = self.run.steps
        at = "" if self.since is None else f", since step {self.since}"
        head = [
            f"{self.name}: {ANSWERS[self.verdict]}{at}",
            f"  {len(steps)} rows, steps {steps[0]} to {steps[-1]}: {', '.join(self.run.signals[:8])}"
            + (f" and {len(self.run.signals) - 8} more" if len(self.run.signals) > 8 else "")
            + f"; nearest to the profile {self.run.profile}",
        ]
        body = self._unshown() if self.verdict == NOTHING else self._account()
        lines = [*head, *body]
        return "\n".join(lines[:LINES])

    def _account(self) -> list[str]:
        lines = [f"  step {one.since}: {one.says}" for one in self.findings[:4]]
        named = [one for one in self.evidence if one.decides or not self.findings][:3]
        lines += [f"  step {one.step}: {one.says} (playbook)" for one in named]
        for row in self.rows:
            values = [f"{name} {row[name]:.4g}" for name in COMMON_SIGNALS if name in row]
            lines += [f"    row {row['step']}: {', '.join(values)}"]
        if self.candidates:
            lines += ["causes that fit, the likeliest first:"]
            for place, one in enumerate(self.candidates, start=1):
                page = self.pages.get(one.cause)
                lines += [f"  {place}. {one.cause}" + (f": {page['title']}" if page else "")]
                if one.alike:
                    others = [f"{x['cause']} (profile {x['told_by']} does)" for x in self.confusable(one)]
                    lines += [f"     what was logged does not tell it from {_listed(others)}"]
            first = self.candidates[0].cause
            page = self.pages.get(first, {})
            if page.get("checked"):
                lines += [f"check next, for {first}: {'; '.join(page['checked'])}"]
            if page.get("sections", {}).get("Cure"):
                lines += [f"cure of {first}, proven on its scenario: {' '.join(page['sections']['Cure'].split())}"]
                lines += [f"  {'; '.join(self.commands(first))}"]
        if self.log_next:
            signals = list(self.log_next.items())[:4]
            lines += ["log next: " + "; ".join(f"{name} (tells of {_listed(of)})" for name, of in signals)]
        if self.near:
            alike = ", ".join(f"{one.cause} ({one.distance:.2f}, {one.runs['faulty']})" for one in self.near)
            lines += [f"like it in the sample, by the distance of the loss: {alike}"]
        else:
            lines += [f"no labelled run of the sample is like it (distance under {ALIKE})"]
        return lines

    def _unshown(self) -> list[str]:
        lines = [f"  step {one.since}: {one.says}" for one in self.findings[:2]]
        found = self.reach
        lines += [
            f"what it could not show: of {found.tried} causes that were tried on logs like this ({found.profile}),"
        ]
        lines += [f"  {len(found.never)} were never found: {_listed(found.never, 12)}"]
        lines += [f"  {len(found.sometimes)} not in every run: {_listed(found.sometimes, 12)}"]
        if self.log_next:
            signals = list(self.log_next.items())[:6]
            lines += ["log next: " + "; ".join(f"{name} (tells of {_listed(of, 3)})" for name, of in signals)]
        return lines

    def __repr__(self) -> str:
        return self.text()


def diagnose(trace: Trace, name: str, pages: Pages | None = None, profile: str = "full") -> Diagnosis:
    """The answer about a run. name: what it is called in it. profile: as if only that had been logged.

    pages: the catalogue's, for titles, cures and signals to log; without it the answer has none of them.
    """
    run = Observed(trace, profile)
    found, rules = findings(run), evidence(run)
    steps = [one.since for one in found if one.decides] + [one.step for one in rules if one.decides]
    verdict = WRONG if steps else UNCLEAR if any(not one.decides for one in found) or _softly(rules) else NOTHING
    steps = steps or [one.since for one in found] or [one.step for one in _softly(rules)]
    since = min(steps) if verdict != NOTHING else None
    near = [] if since is None else [one for one in nearest(run, since) if one.distance < ALIKE]
    fit = [] if since is None else candidates(run.profile, found, rules, [one.cause for one in near])
    unseen = reach(run.profile)
    if since is None:
        listed = [*unseen.never, *unseen.sometimes]
    else:
        listed = [one.cause for one in fit] + [other for one in fit for other in one.alike]
    known = {cause: pages(cause) for cause in listed} if pages else {}
    log_next: dict[str, list[str]] = {}
    for cause, page in known.items():
        if page["telling"] not in run.signals:
            log_next.setdefault(page["telling"], []).append(cause)
    return Diagnosis(name, run, verdict, since, found, rules, fit, near, log_next, known, unseen)


def _softly(rules: list[Evidence]) -> list[Evidence]:
    """Rules about signals besides the curves that do not decide. Those about the curves alone see the rows so far, and
    the findings the whole log: they rank causes, and say nothing of whether one is there."""
    return [one for one in rules if not one.decides and specific(one)]


def _listed(names: Any, most: int = MOST_NAMED) -> str:
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"
