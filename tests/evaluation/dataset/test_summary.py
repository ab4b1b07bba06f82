"""What two data sets of one plan agree in, beside bits."""

import json
from types import SimpleNamespace

import pytest

from trainwreck.evaluation.dataset.diff import Comparison, summarise

LAST = 99  # so that 5 % of a run are five steps


BRANCHES = json.dumps({"40": 0.01, "60": 0.04})


def row(kind="failing", visible=40, no_return=60, branches=BRANCHES):
    steps = {"visible_step": visible, "no_return_step": no_return, "no_return_branches": branches}
    return {"kind": kind, "last_step": LAST, "tolerance": 0.05, "final_loss": 3.0, **steps}


def data_set(rows):
    return SimpleNamespace(run=lambda run_id: rows[run_id])


def summary(pairs, found=None):
    """Of a pair of rows a run. found: comparisons; by default every run is bitwise identical."""
    one, other = ({str(i): pair[k] for i, pair in enumerate(pairs)} for k in (0, 1))
    found = found or [Comparison(run_id, True, LAST + 1) for run_id in one]
    return summarise(data_set(one), data_set(other), found)


def test_what_is_the_same_differs_in_nothing():
    found = summary([(row(), row())] * 3)
    assert (found.runs, found.identical, found.first_steps) == (3, 3, None)
    assert (found.kinds, found.visible, found.no_return) == (0, 0, 0)
    assert found.text() == "3 of 3 runs are bitwise identical"


@pytest.mark.parametrize(
    ("there", "here", "apart", "of"),
    [(40, 42, 0, 1), (40, 43, 1, 1), (43, 40, 1, 1), (40, None, 1, 1), (None, 0, 1, 1), (None, None, 0, 0),
     (40.0, float("nan"), 1, 1), (float("nan"), float("nan"), 0, 0)],
)  # fmt: skip
def test_a_visible_step_may_move_by_two(there, here, apart, of):
    found = summary([(row(visible=there), row(visible=here))])
    assert (found.visible, found.visible_runs) == (apart, of)
    assert (found.kinds, found.no_return) == (0, 0)


@pytest.mark.parametrize(
    ("there", "here", "apart", "of"),
    [(60, 65, 0, 1), (60, 66, 1, 1), (66, 60, 1, 1), (None, 60, 1, 1), (None, None, 0, 0)],
)
def test_a_point_of_no_return_may_move_by_a_twentieth_of_the_run(there, here, apart, of):
    found = summary([(row(no_return=there), row(no_return=here))])
    assert (found.no_return, found.no_return_runs) == (apart, of)
    assert (found.kinds, found.visible) == (0, 0)


def test_another_kind_counts():
    assert summary([(row(), row(kind="latent")), (row(), row())]).kinds == 1


def test_first_steps_and_losses_are_of_the_runs_that_differ():
    differ = [
        Comparison("0", True, 100),
        Comparison("1", False, 100, 3, "loss", 0.1, (), 0.25, -0.5),
        Comparison("2", False, 100, 9, "loss", None, (), None, None),  # not finite in one of the two
        Comparison("3", False, 100, 5, "loss", 0.1, (), 0.125, 0.25),
    ]
    found = summary([(row(), row())] * 4, differ)
    assert (found.identical, found.first_steps) == (1, (3, 5.0, 9))
    assert (found.loss_difference, found.final_difference) == (0.25, 0.5)
    assert found.beyond == 2
    assert "1 of 4 runs are bitwise identical\nthe others differ from step 5 on (median; 3 to 9)\n" in found.text()
    assert "kind in 0 of 4 runs, first visible step by more than 2 steps in 0 of 4" in found.text()
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_verdict_is_by_tolerance():
    differ = [Comparison(str(i), False, 100, 0, "loss", 1e-5, (), 5.7e-5, 1e-5) for i in range(3)]
    found = summary([(row(), row(visible=41, no_return=63))] * 3, differ)
    assert found.agrees
    assert found.verdict == "0 of 3 bitwise; losses within 5.7e-05 nats; labels equal: the same within tolerance"
    assert found.text().splitlines()[-1] == found.verdict
    assert found.to_dict()["verdict"] == found.verdict


@pytest.mark.parametrize(
    ("pair", "difference", "says"),
    [
        ((row(), row(kind="latent")), 0.0, "labels differ: kind in 1"),
        ((row(), row(visible=43)), 0.0, "labels differ: visible step in 1"),
        ((row(), row(no_return=66)), 0.0, "labels differ: point of no return in 1"),
        ((row(), row()), 0.06, "beyond tolerance in 1"),
        ((row(), row() | {"final_loss": float("nan")}), None, "beyond tolerance in 1"),
    ],
)
def test_what_is_beyond_tolerance_is_not_the_same(pair, difference, says):
    found = summary([pair], [Comparison("0", False, 100, 0, "loss", 0.1, (), 0.1, difference)])
    assert not found.agrees
    assert says in found.verdict
    assert found.verdict.endswith(": not the same within tolerance")


def test_labels_of_one_side_alone_are_not_measured_and_no_difference():
    unlabelled = row(no_return=None, branches="{}")
    found = summary([(row(), unlabelled), (unlabelled, unlabelled), (row(), row())])
    assert (found.no_return, found.no_return_runs, found.no_return_missing) == (0, 1, 1)
    assert found.agrees
    assert "point of no return not measured on one side in 1:" in found.text()
