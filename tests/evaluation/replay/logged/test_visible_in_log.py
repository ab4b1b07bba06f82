"""When a log shows a failure, by the labels alone."""

import json
from typing import Any

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.replay.logged.config import LoggingConfig, config_of
from trainwreck.evaluation.replay.logged.visible import possible_rows, visible_in_log
from trainwreck.evaluation.replay.oracles import oracle_alarms
from trainwreck.evaluation.replay.profiles import LOGGED, observe, visible_step
from trainwreck.evaluation.replay.rows import rows
from trainwreck.evaluation.scoring.run_labels import run_labels

SIGNALS = ("loss", "validation_loss", "grad_norm")


def run(steps: dict[str, int], **facts: Any) -> dict[str, Any]:
    return {
        "run_id": "r", "visible_step": min(steps.values(), default=None), "visible_steps": json.dumps(steps),
        "outcome": "damaged", "last_step": 199, "planned_steps": 200,
    } | facts  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "config", "wanted"),
    [
        ({"loss": 83}, {}, 83),
        ({"loss": 83}, {"intervals": ((0, 10),)}, 90),
        ({"loss": 80}, {"intervals": ((0, 10),)}, 80),
        ({"loss": 83}, {"intervals": ((0, 1), (101, 100))}, 83),
        ({"loss": 103}, {"intervals": ((0, 1), (101, 50))}, 150),
        ({"loss": 183}, {"intervals": ((0, 50),)}, None),
        ({"grad_norm": 83, "loss": 120}, {"signals": ("loss",)}, 120),
        ({"grad_norm": 83, "loss": 120}, {}, 83),
        ({"lr": 83, "layer_grad_norm": 90}, {}, None),
        ({"validation_loss": 100}, {"intervals": ((0, 30),)}, 120),
        ({"validation_loss": 100}, {"intervals": ((0, 30),), "own_rows": True}, 100),
        ({"validation_loss": 100}, {"evaluated": 150, "own_rows": True}, 150),
        ({"validation_loss": 175}, {"evaluated": 250, "own_rows": True}, None),
        ({"validation_loss": 100}, {"signals": ("loss",)}, None),
    ],
)
def test_the_first_row_that_shows_it(steps: dict[str, int], config: dict[str, Any], wanted: int | None) -> None:
    assert visible_in_log(run(steps), LoggingConfig(**({"signals": SIGNALS} | config))) == wanted


ENDED = {"outcome": "non_finite", "last_step": 120, "planned_steps": 200}  # not finite from step 100 on


@pytest.mark.parametrize(
    ("steps", "facts", "not_finite", "wanted"),
    [
        ({"loss": 100}, ENDED, "written", 100),
        ({"loss": 100}, ENDED, "blank", 100),
        ({"loss": 100}, ENDED, "last", 100),
        ({"loss": 100}, ENDED, "before", None),
        ({"loss": 99}, ENDED, "before", 99),
        ({"loss": 100}, ENDED | {"outcome": "damaged"}, "before", 100),
        ({"loss": 195}, {"outcome": "non_finite"}, "before", 195),
    ],
)
def test_a_log_that_ends_at_the_crash(
    steps: dict[str, int], facts: dict[str, Any], not_finite: str, wanted: int | None
) -> None:
    assert visible_in_log(run(steps, **facts), LoggingConfig(not_finite=not_finite)) == wanted


def test_tables_without_steps_by_signal() -> None:
    assert visible_in_log(run({}, visible_step=83), LoggingConfig(intervals=((0, 10),))) == 90
    assert visible_in_log(run({}, visible_step=None), LoggingConfig()) is None
    assert visible_in_log(run({}, visible_step=float("nan"), visible_steps=None), LoggingConfig()) is None


def test_it_is_the_first_visible_step_of_the_profile(data_set: DataSet) -> None:
    labels = run_labels(data_set.runs, LOGGED)
    assert labels.failing.any()
    for i, (_, row) in enumerate(data_set.runs.iterrows()):
        step = visible_step(row, LOGGED)
        assert labels.visible[i] == (float("inf") if step is None else step)
        assert step is None or step >= row["visible_step"]
        assert oracle_alarms("oracle_at_v", row, LOGGED).first_alarm == (step if labels.failing[i] else None)
    seen = labels.visible[labels.failing]
    assert (seen > run_labels(data_set.runs, "full").visible[labels.failing]).any()


def test_what_a_log_may_have_rows_at(data_set: DataSet) -> None:
    kinds = set()
    for run_id in data_set.runs["run_id"]:
        trace = data_set.trace(run_id)
        steps = [row["step"] for row in observe(rows(trace), LOGGED, run_id=run_id)]
        allowed, each = possible_rows(run_id, int(trace.steps[-1]))
        kinds.add(each)
        assert set(steps) <= set(allowed)
        if each:
            assert steps == list(allowed)
        else:
            config = config_of(run_id)
            assert config.own_rows or config.not_finite in ("last", "before")
    assert kinds == {True, False}
