"""Labels that contradict each other or their telemetry are refused, with the run and what is wrong."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.dataset.consistency import check_table, check_telemetry
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import score

FAULT = {"kind": "failing", "cause": "high_lr", "scenario": "high_lr", "family": "data", "onset_step": 5}


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"kind": "broken"}, "kind is not allowed; allowed: failing, compound"),
        (FAULT | {"cause": ""}, "a failing run without a cause"),
        ({"cause": "high_lr"}, "a healthy run with a cause"),
        (FAULT | {"onset_step": -1}, "onset_step before step 0"),
        (FAULT | {"onset_step": 120}, "onset_step after last_step"),
        ({"last_step": -1}, "last_step before step 0"),
        ({"run_id": "h"}, "is there twice"),
    ],
)
def test_a_table_that_contradicts_itself(facts: dict[str, Any], complaint: str, make_run: Any) -> None:
    rows = [make_run("h"), make_run("f", **FAULT)]
    check_table(pd.DataFrame(rows))
    with pytest.raises(InputError, match=complaint) as error:
        check_table(pd.DataFrame([*rows, make_run(**({"run_id": "wrong"} | facts))]))
    assert str(error.value).startswith(f"runs: {facts.get('run_id', 'wrong')}: ")
    assert "\n" not in str(error.value)


def test_telemetry_of_another_length(data_set: DataSet) -> None:
    run = data_set.run("healthy-0").copy()
    check_telemetry(run, data_set.trace("healthy-0"))
    run["last_step"] = 99
    with pytest.raises(InputError, match="healthy-0: last_step 99 contradicts its telemetry, which has 120 rows"):
        check_telemetry(run, data_set.trace("healthy-0"))


def test_telemetry_with_a_gap(make_trace: Any, make_run: Any) -> None:
    trace = make_trace("r", steps=5)
    trace.steps = np.array([0, 1, 3, 4, 5])
    with pytest.raises(InputError, match="telemetry: r: row 2 is of step 3; allowed: 2"):
        check_telemetry(pd.Series(make_run("r", last_step=4)), trace)


def test_no_score_is_taken_of_such_runs(data_set: DataSet) -> None:
    runs = data_set.runs.copy()
    runs.loc["spike-0", "last_step"] = 60
    with pytest.raises(InputError, match="spike-0: last_step 60 contradicts its telemetry"):
        score("never", DataSet(data_set.path, data_set.manifest, runs))
