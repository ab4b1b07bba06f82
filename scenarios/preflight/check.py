"""The checks by name, found by walking the folders of `checks/`; there is no list to edit."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.short_forms import AsText
from trainwreck.scenarios.preflight.subject import Preflight, isolated


class Verdict(Enum):
    """What a check says."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


class Stage(Enum):
    """What a check looks at; in this order they run, so that the plainest reason comes first."""

    DATA = "the batch"
    MODEL = "one pass"
    TRAINING = "some training"


@dataclass(frozen=True)
class Answer:
    """A verdict and its evidence: one line with the number, the threshold and why."""

    verdict: Verdict
    evidence: str


@dataclass(frozen=True)
class Check:
    """One check. `rule` in one line; `source`: the document or paper that asks for it."""

    name: str
    stage: Stage
    rule: str
    source: str
    ask: Callable[[Preflight], Answer]


@dataclass(frozen=True, repr=False)
class Finding(AsText):
    """What a check found on a subject."""

    check: str
    verdict: Verdict
    evidence: str
    source: str

    def __repr__(self) -> str:
        return f"{self.check}: {self.verdict.value}; {self.evidence}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**vars(self), "verdict": self.verdict.value}


_REGISTERED: dict[str, Check] = {}


def check(
    stage: Stage, *, rule: str, source: str
) -> Callable[[Callable[[Preflight], Answer]], Callable[[Preflight], Answer]]:
    """Function decorator: enters a check under the function's name, which is its file's."""

    def enter(ask: Callable[[Preflight], Answer]) -> Callable[[Preflight], Answer]:
        if ask.__module__.rsplit(".", 1)[-1] != ask.__name__:
            raise ValueError(f"{ask.__module__}.{ask.__name__}: is not the name of its file")
        _REGISTERED[ask.__name__] = Check(ask.__name__, stage, rule, source, ask)
        return ask

    return enter


@cache
def checks() -> dict[str, Check]:
    """Every check by name, in the order of stages and then of names."""
    package = importlib.import_module("trainwreck.scenarios.preflight.checks")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    order = list(Stage)
    return dict(sorted(_REGISTERED.items(), key=lambda item: (order.index(item[1].stage), item[0])))


def preflight(
    subject: Preflight,
    names: Sequence[str] = (),
    *,
    seed: int = 0,
    tick: Callable[[int, int, str], Any] | None = None,
) -> list[Finding]:
    """Ask the checks, all of them by default, each in its own random state.

    Code of the user that raises under a check fails it, with what was raised as evidence. InputError
    for a name that is not there. The subject and the global random state are left as they were.
    """
    for name in names:
        if name not in checks():
            raise unknown("check", name, checks())
    chosen = [one for name, one in checks().items() if not names or name in names]
    found = []
    for done, one in enumerate(chosen, start=1):
        found.append(_ask(one, subject, seed))
        if tick:
            tick(done, len(chosen), one.name)
    return found


def _ask(one: Check, subject: Preflight, seed: int) -> Finding:
    with isolated(seed):
        try:
            answer = one.ask(subject)
        except InputError:
            raise
        except Exception as error:  # a user's model or loss may raise anything
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            answer = failed(f"raised {reason[:200]}")
    return Finding(one.name, answer.verdict, answer.evidence, one.source)


def passed(evidence: str) -> Answer:
    """It is as it should be."""
    return Answer(Verdict.PASS, evidence)


def failed(evidence: str) -> Answer:
    """It is not."""
    return Answer(Verdict.FAIL, evidence)


def not_applicable(why: str) -> Answer:
    """There is nothing here to ask."""
    return Answer(Verdict.NOT_APPLICABLE, why)
