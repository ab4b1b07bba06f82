"""The committed board: a row a policy, who was harmed, and what the oracle missed; the outcomes beside it."""

import json

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.scenarios.bench.claims.policies import board, write_board
from trainwreck.scenarios.rescue.board import table
from trainwreck.scenarios.rescue.outcomes import Outcome


def one(policy: str, run: int, kind: str = "failing", within: bool = True, harmed: bool = False) -> Outcome:
    failing = kind == "failing"
    saved = (1.0 if within else 0.4) if failing else 0.0
    scenario = "mask_missing" if failing else "benign_single_spike"
    return Outcome(
        policy, f"r{run}", scenario, kind, run, "b", failing, 10, 1.0, saved, 0.0, 2.0,
        1.0 if failing else 0.0, within, harmed, 20 if failing else None, 60, "end", (), (), (),
    )  # fmt: skip


@pytest.fixture
def outcomes():
    """Two failing runs, of which the oracle saves one, a healthy one and a look-alike that `eager` harms."""
    kinds = ("failing", "failing", "healthy", "look-alike")
    oracle = [one("oracle", run, kind, within=run != 1) for run, kind in enumerate(kinds)]
    return oracle + [one("eager", run, kind, within=False, harmed=run == 3) for run, kind in enumerate(kinds)]


def test_a_row_a_policy_and_a_row_a_run_that_the_oracle_missed(outcomes):
    found = board(outcomes, table(outcomes, resamples=50), load("sample"), "common", 10)
    rows = {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.rows}
    assert list(rows) == ["oracle", "eager"]
    assert rows["oracle"]["recovered"].startswith("0.700 [")
    assert rows["oracle"]["rescued"].startswith("0.500 [")
    assert (rows["oracle"]["healthy harmed"], rows["oracle"]["look-alikes harmed"]) == ("0 of 1", "0 of 1")
    assert (rows["eager"]["healthy harmed"], rows["eager"]["look-alikes harmed"]) == ("0 of 1", "1 of 1")
    assert (rows["oracle"]["delay"], rows["eager"]["delay"]) == ("10", "")
    (missed,) = found.limit.rows
    assert missed == ("mask_missing", 1, 10, 20, pytest.approx(0.6), 0.05)
    assert "2 failing, 1 healthy, 1 look-alike runs of 2 scenarios, 4 seeds; 2 of them rescuable" in found.how


def test_an_oracle_that_missed_none_has_no_table_of_what_it_missed(outcomes):
    kept = [one for one in outcomes if one.policy != "oracle" or one.within]
    found = board(kept, table(kept, resamples=50), load("sample"), "common", 10)
    assert found.limit is None
    assert found.how.endswith("The oracle rescued every rescuable run.")
    others = [one for one in kept if one.policy != "oracle"]
    assert board(others, table(others, resamples=50), load("sample"), "common", 10).how.endswith("harmed.")


def test_the_page_and_the_outcomes_are_written(outcomes, tmp_path):
    head = {"profile": "common", "block": 10}
    write_board(board(outcomes, table(outcomes, resamples=50), load("sample"), **head), outcomes, head, tmp_path)
    assert {path.name for path in (tmp_path / "rescue").iterdir()} == {
        "README.md", "environment.json", "outcomes.jsonl", "result.json",
    }  # fmt: skip
    first, *lines = (tmp_path / "rescue" / "outcomes.jsonl").read_text().splitlines()
    assert json.loads(first) == head
    assert [Outcome.from_json(json.loads(line)) for line in lines] == outcomes
