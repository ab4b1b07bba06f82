"""The whole answer: about runs of the sample, whose truth is known, and as text, JSON and a page."""

import json
import re

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.diagnosis.candidates import told_apart_by
from trainwreck.evaluation.diagnosis.diagnosis import NOTHING, UNCLEAR, WRONG, diagnose
from trainwreck.evaluation.diagnosis.page import PIECES, write_page
from trainwreck.evaluation.short_forms import LINES
from trainwreck.scenarios.spec.pages import page as catalogue_page

SEEN = {"corrupt_tokens", "gradients_not_cleared", "nan_weight_spread", "catastrophic_forgetting"}
UNSEEN = {"mask_zeroed", "output_reinitialised", "residual_bypassed"}  # on the common signals no rule decides
SOON = 40  # steps: an evaluation comes every 20


@pytest.fixture(scope="module")
def sample():
    return load("sample")


@pytest.fixture(scope="module")
def broken(sample):
    """The answer about a run of the sample that ends in NaN, with the catalogue's pages."""
    row = next(row for _, row in sample.runs.iterrows() if row["scenario"] == "nan_weight_spread")
    return diagnose(sample.trace(row["run_id"]), "a run", catalogue_page, "common"), row


def of_kind(sample, kind, causes=None):
    runs = sample.runs[(sample.runs["kind"] == kind) & (sample.runs["split"] == "test")]
    return [row for _, row in runs.iterrows() if causes is None or row["cause"] in causes]


@pytest.mark.parametrize("kind", ["healthy", "look-alike"])
def test_nothing_is_wrong_with_a_twin_or_a_look_alike(kind, sample):
    rows = of_kind(sample, kind)
    assert len(rows) == 6
    for row in rows:
        assert diagnose(sample.trace(row["run_id"]), "", profile="common").verdict != WRONG, row["scenario"]


def test_failing_runs_are_wrong_since_their_onset(sample):
    for row in of_kind(sample, "failing", SEEN):
        found = diagnose(sample.trace(row["run_id"]), "", profile="common")
        assert found.verdict == WRONG, row["scenario"]
        assert -SOON <= found.since - row["onset_step"] <= SOON, row["scenario"]
        if row["scenario"] in ("corrupt_tokens", "nan_weight_spread"):  # a jump is dated to its row
            assert found.since == row["onset_step"]


def test_a_rule_on_what_is_either_so_or_not_decides_by_itself(sample):
    (row, *_) = of_kind(sample, "failing", {"mask_missing"})
    trace = sample.trace(row["run_id"])
    found = diagnose(trace, "", profile="full")
    assert (found.verdict, found.since) == (WRONG, row["onset_step"])
    assert found.candidates[0].cause == "mask_missing"
    assert diagnose(trace, "", profile="common").verdict == NOTHING  # and its signal was not logged


def test_an_answer_of_nothing_says_what_it_could_not_show(observed, trace, falling):
    found = diagnose(trace(falling(), lr=np.full(400, 1e-3)), "mine.csv", catalogue_page)
    assert (found.verdict, found.since, found.candidates, found.rows) == (NOTHING, None, [], [])
    facts = found.to_dict()["not_shown"]
    assert facts["profile"] == "minimal"
    assert "heads_tied" in facts["never_found"]
    assert "mask_zeroed" in facts["not_always_found"]
    assert "nan_weight_spread" not in facts["never_found"]
    assert "heads_tied" in found.log_next["head_entropy"]
    assert "loss" not in found.log_next
    assert "nothing wrong that this log could show" in found.text()


def test_what_alone_does_not_decide_is_unclear(trace, falling):
    loss = falling()
    loss[200:230] += 5.0
    found = diagnose(trace(loss), "mine.csv")
    assert found.verdict == UNCLEAR
    assert 200 <= found.since <= 212


def test_the_answer_has_causes_cure_and_commands(broken):
    found, row = broken
    facts = found.to_dict()
    (first, *_) = facts["candidates"]
    assert first["cause"] == "nan_weight_spread"
    tells = {other["cause"]: (other["told_by"], other["telling"]) for other in first["not_told_from"]}
    assert tells["poisoned_checkpoint"] == ("full", "nonfinite_weights")
    assert tells["norm_eps_zero"][0] == "standard"
    assert first["commands"] == ["trainwreck show nan_weight_spread", "trainwreck reproducer nan_weight_spread"]
    assert first["cure"].startswith("Halt and restore")
    assert first["why"][0]["step"] == facts["since"] == row["onset_step"]
    assert [entry["step"] for entry in facts["rows"]][1:3] == [row["onset_step"] - 1, row["onset_step"]]
    assert facts["nearest"][0]["cause"] == "nan_weight_spread"
    assert facts["nearest"][0]["distance"] < 0.05
    assert "nan_weight_spread" in facts["log_next"]["nonfinite_weights"]


def test_the_poorest_profile_that_tells_two_causes_apart():
    assert told_apart_by("minimal", "nan_weight_spread", "sqrt_negative") == "full"
    assert told_apart_by("minimal", "nan_weight_spread", "norm_eps_zero") == "standard"
    assert told_apart_by("full", "dropout_on_at_eval", "ema_misused") is None


def test_the_forms_of_an_answer(broken):
    found, _ = broken
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()
    assert repr(found) == found.text()
    assert 10 < len(repr(found).splitlines()) <= LINES
    assert found._repr_html_().startswith("<pre>")
    assert diagnose(found_trace(), "<b>").verdict == WRONG
    assert "<b>" not in diagnose(found_trace(), "<b>")._repr_html_()


def found_trace():
    """A log of three rows, two of which are NaN."""
    from trainwreck.evaluation.dataset.trace import Trace

    loss = np.array([4.0, np.nan, np.nan], np.float32)
    return Trace("x", {"loss": loss, "validation_loss": np.full(3, np.nan, np.float32)}, np.zeros(3, bool))


def test_the_page_is_one_file_that_loads_nothing(broken, tmp_path):
    found, row = broken
    text = write_page(found, tmp_path / "answer.html").read_text(encoding="utf-8")
    assert f"since step {int(row['onset_step'])}" in text
    assert "trainwreck reproducer nan_weight_spread" in text
    assert not re.findall(r"""(?:src|href)=["'](?!data:)[^"'#]""", text)
    assert not re.findall(r"https?://(?!www\.w3\.org)", text)
    drawn = json.loads(re.search(r'id="drawn">(.*?)</script>', text, re.DOTALL)[1])
    assert [one["label"] for one in drawn["own"]] == ["loss", "validation loss", "grad norm", "lr"]
    assert {one["id"] for one in drawn["near"][0]} == {"faulty", "twin", "cured", "yours"}
    assert "nan" in drawn["own"][0]["series"][0]["values"]


def test_a_long_curve_is_thinned_and_keeps_its_extremes(trace, tmp_path):
    loss = 4.0 + np.random.default_rng(0).random(20_000)
    loss[12_345], loss[15_000] = 90.0, np.nan
    text = write_page(diagnose(trace(loss), "long"), tmp_path / "long.html").read_text(encoding="utf-8")
    drawn = json.loads(re.search(r'id="drawn">(.*?)</script>', text, re.DOTALL)[1])
    (series,) = drawn["own"][0]["series"]
    assert len(series["steps"]) <= 2 * PIECES + 1
    assert dict(zip(series["steps"], series["values"], strict=True))[12_345] == 90.0
    assert dict(zip(series["steps"], series["values"], strict=True))[15_000] == "nan"
