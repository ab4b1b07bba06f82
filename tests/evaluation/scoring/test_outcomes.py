"""The runs table and the alarms, joined."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.dataset.schema import HELD_OUT
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.alarms import labelled_alarms
from trainwreck.evaluation.replay.oracles import oracle_alarms
from trainwreck.evaluation.replay.profiles import ALL_PROFILES
from trainwreck.evaluation.replay.replay import Alarms
from trainwreck.evaluation.scoring.breakdown import exposure
from trainwreck.evaluation.scoring.metrics.recall import firsts_above
from trainwreck.evaluation.scoring.outcomes import outcomes
from trainwreck.evaluation.scoring.reference import baseline
from trainwreck.evaluation.scoring.run_labels import run_labels


def crashed(alarms: Alarms) -> Alarms:
    return Alarms(**(vars(alarms) | {"status": "crashed: RuntimeError"}))


def frame(*runs: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(runs))


def test_labels_and_alarms_side_by_side(make_run: Any) -> None:
    runs = frame(
        make_run("h", seed=1),
        make_run("f", seed=1, kind="failing", cause="high_lr", onset_step=20, visible_step=30, no_return_step=60),
        make_run("g", seed=2, kind="failing", cause="high_lr", onset_step=20),
    )
    stored = {"h": labelled_alarms("h", 119, None), "f": labelled_alarms("f", 119, 33, ("high_lr",))}
    found = outcomes(run_labels(runs), stored | {"g": labelled_alarms("g", 119, 10)})
    assert found.first.tolist() == [math.inf, 33.0, 10.0]
    assert found.onset.tolist() == [math.inf, 20.0, 20.0]
    assert found.visible.tolist() == [math.inf, 30.0, math.inf]
    assert found.no_return.tolist() == [119.0, 60.0, 119.0]
    assert found.return_measured.tolist() == [False, True, False]
    assert found.failing.tolist() == [False, True, False]
    assert found.never_visible.tolist() == [False, False, True]
    assert found.subject.tolist() == [f"base {runs['base'][0]}"] * 3  # none has a scenario
    assert found.seed.tolist() == [1, 1, 2]
    assert found.named == ((), ("high_lr",), ())
    assert found.cause.tolist() == ["", "high_lr", "high_lr"]
    assert found.select(found.failing).run_id.tolist() == ["f"]
    assert found.select(np.array([2, 0])).first.tolist() == [10.0, math.inf]


def test_healthy_steps(make_run: Any) -> None:
    """All of a healthy run, those before the onset of a failing one, none of a latent one."""
    fault = {"kind": "failing", "cause": "high_lr", "visible_step": 30, "last_step": 99}
    runs = frame(
        make_run("h", last_step=99), make_run("f", onset_step=20, **fault), make_run("g", onset_step=0, **fault),
        make_run("latent", onset_step=20, **(fault | {"kind": "latent"})),
    )  # fmt: skip
    found = outcomes(run_labels(runs), {run: labelled_alarms(run, 99, None) for run in runs["run_id"]})
    assert exposure(found).tolist() == [100, 20, 0, 0]


def test_splits(make_run: Any) -> None:
    runs = frame(
        make_run("a", split="calibration"), make_run("b", split="train"), make_run("c"),
        make_run("d", split="calibration", kind="look-alike"),
    )  # fmt: skip
    found = outcomes(run_labels(runs), {run: labelled_alarms(run, 119, None) for run in "abcd"})
    assert found.tuning.tolist() == [True, True, False, True]
    assert found.calibration.tolist() == [True, False, False, True]
    assert found.negative.tolist() == [True, True, True, True]


@pytest.mark.parametrize("profile", ALL_PROFILES)
def test_overflows_set_no_threshold_where_the_loss_scale_is_not_shown(make_run: Any, profile: str) -> None:
    scaled = '{"precision": {"dynamic": true, "format": "fp16"}}'
    runs = frame(
        make_run("a", split="calibration"), make_run("b", split="calibration", context=scaled),
        make_run("c", context=scaled), make_run("d", split="calibration", kind="look-alike", context=scaled),
    )  # fmt: skip
    found = run_labels(runs, profile)
    hidden = profile in ("common", "logged", "trainer")
    assert found.calibration.tolist() == [True, not hidden, False, not hidden]
    assert found.negative.all()  # and is measured as any other
    made = baseline(runs, profile, resamples=2)
    assert made.measured.tolist() == [False, False, True, False]
    assert len(made.calibration_labels) == (1 if hidden else 3)


def test_what_no_training_run_has_is_one_word_or_several(make_run: Any) -> None:
    """Single words are those of older data sets as well."""
    held_out = ("", "cause", "base", "cause+base", "shape", "look-alike+base", "cause+pair")
    runs = frame(*(make_run(f"r{i}", held_out=what) for i, what in enumerate(held_out)))
    found = run_labels(runs)
    assert found.unseen("cause").tolist() == [False, True, False, True, False, False, True]
    assert found.unseen("base", "shape").tolist() == [False, False, True, True, True, True, False]
    assert found.unseen(*HELD_OUT).tolist() == [what != "" for what in held_out]
    assert not found.unseen("look").any()


def test_a_crash_is_a_miss_but_undoes_no_false_alarm(make_run: Any) -> None:
    fault = {"kind": "failing", "cause": "high_lr", "onset_step": 20, "visible_step": 30}
    latent = make_run("latent", **(fault | {"kind": "latent"}))
    runs = frame(make_run("late", **fault), make_run("early", **fault), make_run("healthy"), latent)
    stored = {
        "late": crashed(labelled_alarms("late", 119, 40)),
        "early": crashed(labelled_alarms("early", 119, 5)),
        "healthy": crashed(labelled_alarms("healthy", 119, 5)),
        "latent": crashed(labelled_alarms("latent", 119, 50)),
    }
    assert outcomes(run_labels(runs), stored).first.tolist() == [math.inf, 5.0, 5.0, 50.0]


@pytest.mark.parametrize(
    ("label", "complaint"),
    [
        ({"onset_step": None}, "onset_step is empty"),
        ({"last_step": None}, "last_step is empty"),
        ({"visible_step": 10}, "visible_step before onset_step"),
        ({"visible_step": 120}, "visible_step after last_step"),
        ({"no_return_step": 10}, "no_return_step before onset_step"),
        ({"no_return_step": 120}, "no_return_step after last_step"),
    ],
)
def test_labels_that_contradict_themselves(make_run: Any, label: dict[str, Any], complaint: str) -> None:
    good = {"kind": "failing", "onset_step": 20, "visible_step": 30, "no_return_step": 60}
    runs = frame(make_run("h"), make_run("bad", **(good | label)))
    with pytest.raises(InputError, match=f"runs: bad: {complaint}"):
        outcomes(run_labels(runs), {run: labelled_alarms(run, 119, None) for run in ("h", "bad")})


def test_an_alarm_that_names_a_wrong_log_is_no_false_alarm(make_run: Any) -> None:
    """At the default as at thresholds, whichever fault of the log is named; otherwise it is one."""
    wrong = {"kind": "look-alike", "scenario": "log_loss_summed", "cause": "log_loss_summed", "family": "logging"}
    alike = {"kind": "look-alike", "scenario": "benign_bimodal_loss", "family": "look-alikes"}
    failing = {"kind": "failing", "cause": "high_lr", "family": "optimisation", "onset_step": 20, "visible_step": 30}
    runs = frame(
        make_run("right", **wrong, onset_step=20), make_run("kin", **wrong, onset_step=20),
        make_run("family", **wrong, onset_step=20), make_run("else", **wrong, onset_step=20),
        make_run("nothing", **wrong, onset_step=20), make_run("alike", **alike), make_run("f", **failing),
    )  # fmt: skip
    named = {
        "right": ("log_loss_summed", "high_lr"), "kin": ("log_rows_missing",), "family": ("logging",),
        "else": ("high_lr", "log_loss_summed"), "nothing": (), "alike": ("log_loss_summed",), "f": ("log_loss_summed",),
    }  # fmt: skip
    found = outcomes(run_labels(runs), {run: labelled_alarms(run, 119, 40, causes) for run, causes in named.items()})
    assert found.negative.tolist() == [True] * 6 + [False]
    assert found.first.tolist() == [math.inf] * 3 + [40.0] * 4
    assert [len(one) for one in found.edges] == [0, 0, 0, 1, 1, 1, 1]
    assert firsts_above(found.steps, found.scores, np.array([0.5])).tolist() == [found.first.tolist()]


def test_a_later_answer_that_is_not_the_log_stops_the_run(make_run: Any) -> None:
    wrong = {"kind": "look-alike", "scenario": "log_loss_summed", "cause": "log_loss_summed", "family": "logging"}
    one = labelled_alarms("r", 119, 40, ("log_loss_summed",))
    scores = np.where(one.steps < 40, 0.0, np.where(one.steps < 60, 1.0, 2.0))
    answers = ((40, ("log_loss_summed",)), (60, ("high_lr",)))
    found = outcomes(
        run_labels(frame(make_run("r", **wrong, onset_step=20))), {"r": replace(one, scores=scores, answers=answers)}
    )
    assert found.first.tolist() == [math.inf]
    assert firsts_above(found.steps, found.scores, np.array([0.5, 1.5])).ravel().tolist() == [60.0, 60.0]


def test_a_compound_run_is_a_positive(make_run: Any) -> None:
    pair = {"kind": "compound", "scenario": "a+b", "cause": "a+b", "family": "data+numerics"}
    runs = frame(make_run("p", **pair, onset_step=20, visible_step=30), make_run("h"))
    found = outcomes(run_labels(runs), {run: labelled_alarms(run, 119, None) for run in "ph"})
    assert found.failing.tolist() == [True, False]
    assert found.negative.tolist() == [False, True]
    frame_of = baseline(runs, resamples=10)
    assert frame_of.family_of["a"] == "data"
    assert frame_of.family_of["b"] == "numerics"
    assert oracle_alarms("oracle_at_v", runs.iloc[0], "full").causes == ("a", "b")


def test_a_compound_cause_is_unseen_where_neither_part_was_seen(make_run: Any) -> None:
    fault = {"kind": "failing", "onset_step": 20, "visible_step": 30, "family": "data"}
    pair = fault | {"kind": "compound", "family": "data+data"}
    runs = frame(
        make_run("t", split="train", cause="a", **fault),
        make_run("p", cause="a+b", **pair), make_run("q", cause="c+d", **pair), make_run("h"),
    )  # fmt: skip
    assert baseline(runs, resamples=10).unseen == {"c+d"}
