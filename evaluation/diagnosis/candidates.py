"""What the failure may be: causes in an order, with the evidence for each, and what would tell them apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainwreck.evaluation.constants import LOG_FAULTS
from trainwreck.evaluation.detectors.playbook.playbook import RULES, Playbook
from trainwreck.evaluation.diagnosis.findings import Finding
from trainwreck.evaluation.diagnosis.observed import Observed
from trainwreck.evaluation.replay.profiles import PROFILES
from trainwreck.evaluation.scoring import equivalence_sets

MOST = 5  # candidates
GENERAL = 0.5  # weight of a rule on the curves alone beside one about a signal that is made for its cause
NEARBY = 0.5  # weight of the labelled runs that are alike
# Rules of the playbook about what is either so or not, in whatever unit the loss is.
CERTAIN = frozenset({
    "ddp_same_data", "ddp_gradients_not_averaged", "document_mask_missing", "padding_attended", "mask_missing",
    "mask_off_by_one", "loss_scale_stuck_high", "loss_detached", "effective_lr_zero", *LOG_FAULTS,
})  # fmt: skip
# Whose sets are taken where those of a profile are not measured.
POORER = {"common": "minimal", "trainer": "minimal", "full": "standard"}
RICHER = tuple(reversed([name for name in PROFILES if name != "filtered"]))  # the poorest first


@dataclass(frozen=True)
class Evidence:
    """A rule of the playbook that holds. step: the row at which it had held long enough. decides: see `Finding`.

    causes: as it ranks them. reads: signals that it is about, empty for the curves. source: what teaches it.
    """

    causes: tuple[str, ...]
    step: int
    says: str
    source: str
    reads: tuple[str, ...]
    decides: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self) | {"causes": list(self.causes), "reads": list(self.reads)}


@dataclass(frozen=True)
class Candidate:
    """A cause that fits. score: the sum of the reciprocal ranks that the evidence gives it.

    alike: causes of the same equivalence set, which what was logged does not tell from it. why: (step, words) of
    each finding and rule that names it.
    """

    cause: str
    score: float
    alike: tuple[str, ...]
    why: tuple[tuple[int, str], ...]


def evidence(run: Observed) -> list[Evidence]:
    """The rules of the playbook that held at some row, in the order of the list, with the first such row."""
    detector = Playbook()
    detector.reset(None)
    first: dict[int, int] = {}
    for row in run.rows:
        if not detector.update(row).alarm:  # no rule holds
            continue
        for place, (rule, held) in enumerate(zip(RULES, detector.held(), strict=True)):
            if held >= rule.hold:
                first.setdefault(place, row["step"])
    return [
        Evidence(
            (rule.cause, *rule.then), first[place], rule.says, rule.source, rule.reads,
            rule.cause in CERTAIN and bool(rule.reads),
        )
        for place, rule in enumerate(RULES)
        if place in first
    ]  # fmt: skip


def specific(rule: Evidence) -> bool:
    """Whether a rule is about a signal that is made for its cause, and not about losses."""
    return bool(rule.reads) and "validation_loss" not in rule.reads


def candidates(
    profile: str, found: Iterable[Finding], rules: Iterable[Evidence], near: Iterable[str] = ()
) -> list[Candidate]:
    """Causes by reciprocal ranks, summed over the findings, the rules and the labelled runs that are nearest.

    profile: what the log shows most nearly. near: causes of those runs, the nearest first. Of the rules of the
    playbook, in which the first decides, and of the findings, of which the earliest does, later ones count for less.
    """
    score: dict[str, float] = {}
    why: dict[str, list[tuple[int, str]]] = {}

    def count(causes: Sequence[str], weight: float, reason: tuple[int, str] | None = None) -> None:
        for rank, cause in enumerate(causes, start=1):
            score[cause] = score.get(cause, 0.0) + weight / rank
            if reason and reason not in why.setdefault(cause, []):
                why[cause].append(reason)

    for place, rule in enumerate(sorted(rules, key=lambda one: not specific(one)), start=1):
        count(rule.causes, (1.0 if specific(rule) else GENERAL) / place, (rule.step, rule.says))
    decisive = [one for one in found if one.decides] or list(found)
    for place, one in enumerate(decisive, start=1):
        count(one.causes, 1.0 / place, (one.since, one.says))
    count(list(dict.fromkeys(near)), NEARBY)
    sets = sets_of(profile)
    ordered = sorted(score, key=lambda cause: -score[cause])[:MOST]
    return [
        Candidate(cause, score[cause], tuple(sorted(sets.get(cause, ()))), tuple(why.get(cause, ())))
        for cause in ordered
    ]


def measured_profile(profile: str) -> str:
    """The profile whose equivalence sets serve: its own, or those of the next poorer one that was measured."""
    return profile if profile in equivalence_sets.measured() else POORER.get(profile, profile)


def sets_of(profile: str) -> Mapping[str, frozenset[str]]:
    """Cause to those that the profile does not tell from it."""
    return equivalence_sets.shipped(measured_profile(profile))


def told_apart_by(profile: str, first: str, second: str) -> str | None:
    """The poorest profile, of those richer than this, under which two causes are in no set together; None if none."""
    measured = equivalence_sets.measured()
    richer = RICHER[RICHER.index(profile) + 1 :] if profile in RICHER else RICHER
    return next((name for name in richer if name in measured and second not in measured[name].get(first, ())), None)
