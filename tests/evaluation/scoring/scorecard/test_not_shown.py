"""A run whose fault is not shown counts neither as a failure nor as a healthy run, whatever a detector says of it."""

from typing import Any

import pytest

from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.scoring.run_labels import run_labels
from trainwreck.evaluation.scoring.scorecard import plain


@pytest.fixture
def beside(
    make_run: Any, make_trace: Any, levels: Any, tmp_path_factory: pytest.TempPathFactory, write_data_set: Any
) -> Any:
    """Runs to calibrate on, a failing one, two healthy ones, and one of `kind` with such a loss."""

    def made(kind: str | None, loss: list[float]) -> Any:
        fault = {"scenario": "high_lr", "cause": "high_lr", "family": "optimisation", "onset_step": 20}
        cases = [(f"c{i}", levels(), {"split": "calibration"}) for i in range(20)]
        cases += [("f", levels((50, 20.0)), fault | {"kind": "failing", "visible_step": 40})]
        cases += [("h", levels(), {}), ("g", levels((60, 4.5)), {})]
        facts = {} if kind == "healthy" else fault | {"kind": kind, "visible_step": 25}
        cases += [("n", loss, facts)] if kind else []
        runs = [make_run(id, seed=seed, last_step=99, **facts) for seed, (id, _, facts) in enumerate(cases)]
        traces = [make_trace(id, seed=seed, steps=100, loss=values) for seed, (id, values, _) in enumerate(cases)]
        return write_data_set(tmp_path_factory.mktemp("beside"), runs, traces)

    return made


SCORES = ("false_alarm_rate", "false_stop", "points", "free", "ceiling", "monitor_recall")


def scores(data: Any, detector: Any) -> str:
    """Every score, as text: NaN is NaN."""
    card = score(detector, data)
    return repr({name: plain(getattr(card, name)) for name in SCORES})


def test_no_score_moves_with_it_alarmed_or_not(beside: Any, levels: Any, at_loss: Any) -> None:
    alarmed, quiet = levels((30, 9.0)), levels()
    without = scores(beside(None, quiet), at_loss)
    assert scores(beside("not shown", alarmed), at_loss) == scores(beside("not shown", quiet), at_loss) == without
    assert scores(beside("failing", quiet), at_loss) != without
    assert scores(beside("healthy", alarmed), at_loss) != without


def test_it_is_neither_positive_nor_negative_and_a_note_counts_it(beside: Any, levels: Any, at_loss: Any) -> None:
    data = beside("not shown", levels((30, 9.0)))
    labels = run_labels(data.runs)
    mine = labels.run_id == "n"
    for one in (labels.failing, labels.never_visible, labels.healthy, labels.look_alike, labels.negative):
        assert not one[mine].any()
    notes = score(at_loss, data).notes
    assert "1 run whose fault is not shown: neither failing nor healthy" in notes
    assert not any("not shown" in note for note in score(at_loss, beside(None, levels())).notes)
