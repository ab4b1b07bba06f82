"""`bench rescue`: every policy plays the runs that are trained plainly, and the goal is the ratio of the two."""

import pytest

from trainwreck.scenarios.bench.claims import rescue


@pytest.fixture
def table(monkeypatch):
    """Two runs of twenty steps."""
    for name, value in (("RUNS", 2), ("STEPS", 20)):
        monkeypatch.setattr(rescue, name, value)
    return rescue.against_plain_runs(lambda done, total, what: None)


def test_a_row_a_policy_with_what_it_did(table):
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    plain, never, random = (rows[name] for name in ("plain runs", "episodes under `never`", "episodes under `random`"))
    assert (plain["x plain runs"], plain["steps trained"], plain["actions"]) == (1, 40, 0)
    assert (never["steps trained"], never["actions"]) == (40, 0)
    assert random["steps trained"] >= 40
    assert random["x plain runs, a step"] == pytest.approx(random["x plain runs"] * 40 / random["steps trained"])
    (goal,) = table.goals
    assert goal.measured == never["x plain runs"] > 0
    assert not goal.least
