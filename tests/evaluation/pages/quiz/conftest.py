"""A quiz of the shipped sample with few detectors, and what people might answer to it."""

from collections.abc import Callable, Sequence

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load, telemetry_digest
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.pages.quiz.answers import HEALTHY, NOTHING, STOP, Answer, Sheet
from trainwreck.evaluation.pages.quiz.quiz import Quiz, make
from trainwreck.evaluation.pages.quiz.recipe import Recipe

FAMILIES = {
    "corrupt_tokens": "data", "mask_missing": "attention and position", "mask_zeroed": "attention and position",
    "gradients_not_cleared": "optimisation", "nan_weight_spread": "numerics", "high_lr": "optimisation",
    "catastrophic_forgetting": "data", "output_reinitialised": "state, resume, evaluation", "no_warmup": "schedule",
    "residual_bypassed": "architecture and initialisation",
}  # fmt: skip


@pytest.fixture(scope="session")
def shipped() -> DataSet:
    return load(sample())


@pytest.fixture(scope="session")
def recipe(shipped: DataSet) -> Recipe:
    return Recipe(telemetry_digest(shipped), seed=7, runs=12, profile="full")


@pytest.fixture(scope="session")
def quiz(shipped: DataSet, recipe: Recipe) -> Quiz:
    return make(shipped, recipe, FAMILIES, ["never", "grad_norm_zscore", "playbook"])


def _sheet(quiz: Quiz, answer: Callable[[int, str], Answer], player: str = "Ada", sitting: int = 1) -> Sheet:
    answers = [answer(number, run_id) for number, run_id in enumerate(quiz.runs["run_id"], start=1)]
    return Sheet(player, f"{sitting:016x}", quiz.recipe, tuple(answers))


@pytest.fixture(scope="session")
def sheet_of() -> Callable[..., Sheet]:
    """sheet_of(quiz, answer(number, run_id), player, sitting)"""
    return _sheet


@pytest.fixture(scope="session")
def late(quiz: Quiz) -> Callable[..., Callable[[int, str], Answer]]:
    """Someone who sees every failure `steps` after it is visible, names `named` or the truth, and nothing else."""

    def of(steps: int, named: Sequence[str] | None = None, quiz: Quiz = quiz) -> Callable[[int, str], Answer]:
        def answer(number: int, run_id: str) -> Answer:
            row = quiz.runs.loc[run_id]
            if row["kind"] not in FAILURES:
                return Answer(number, HEALTHY, seconds=20)
            step = min(int(row["visible_step"]) + steps, int(row["last_step"]))
            return Answer(number, STOP, step, (row["cause"],) if named is None else tuple(named), 10)

        return answer

    return of


@pytest.fixture(scope="session")
def nothing() -> Callable[[int, str], Answer]:
    return lambda number, run_id: Answer(number, NOTHING)
