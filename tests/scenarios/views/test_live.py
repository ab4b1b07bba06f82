"""One scenario side by side with twin and cure: facts, picture, and the picture in a terminal."""

import io
import json
import sys

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.live_page.page import render
from trainwreck.scenarios.data.batches import entropy_floor
from trainwreck.scenarios.spec.run_spec import family_of
from trainwreck.scenarios.spec.scenario import Severity
from trainwreck.scenarios.training.loop import train
from trainwreck.scenarios.views.session import _plot, run_live

TINY = ["steps=60", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    picture = tmp_path_factory.mktemp("live") / "deep" / "a.png"
    return run_live("mask_missing", 2, None, None, TINY, picture, quiet=True), picture


def test_the_facts_are_those_of_the_runs(recorded):
    facts, picture = recorded
    specs = family_of("mask_missing", [2], overrides=TINY)
    traces = [result.trace for result in train([spec.job() for spec in specs])]
    assert [run["run_id"] for run in facts["runs"]] == [spec.run_id for spec in specs]
    assert [run["role"] for run in facts["runs"]] == ["faulty", "twin", "cured"]
    finals = [trace.final_loss() for trace in traces]
    assert [run["final_loss"] for run in facts["runs"]] == finals
    assert [run["final_gap"] for run in facts["runs"]] == [finals[0] - finals[1], None, finals[2] - finals[1]]
    assert (facts["onset_step"], facts["cure_step"]) == (specs[0].onset, specs[2].cure_step)
    assert facts["signature"] is specs[0].entry.holds(traces[0], traces[1], specs[0].onset)
    assert facts["entropy_floor"] == entropy_floor(specs[0].setup)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_a_look_alike_has_no_cure_and_no_signature(tmp_path):
    facts = run_live("benign_single_spike", 0, None, None, TINY, tmp_path / "a.png", quiet=True)
    assert [run["role"] for run in facts["runs"]] == ["faulty", "twin"]
    assert facts["signature"] is facts["cure_step"] is None


class Page:
    """Stands in for the page: remembers its arguments."""

    def __init__(self):
        self.show, self.blocks, self.facts = None, {}, None

    def open(self, show):
        self.show = show
        return self

    def block(self, role, trace):
        self.blocks.setdefault(role, []).append(trace)

    def finish(self, facts):
        self.facts = facts


def test_a_page_is_told_everything(tmp_path, monkeypatch):
    page, screen = Page(), Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    facts = run_live("mask_missing", 2, None, None, TINY, tmp_path / "a.png", opened=page.open)
    assert screen.getvalue() == ""  # the curves are on the page
    assert page.facts == facts
    assert list(page.show.roles) == ["faulty", "twin", "cured"]
    assert [(mark.step, mark.label) for mark in page.show.marks] == [
        (facts["onset_step"], "s"),
        (facts["cure_step"], "cure"),
    ]
    assert page.show.steps == 60
    assert page.show.floor == facts["entropy_floor"]
    assert {"Failure", "Signature", "Cure"} <= set(page.show.sections)
    for run in facts["runs"]:
        blocks = page.blocks[run["role"]]
        assert len(blocks) > 1
        assert np.concatenate([block.steps for block in blocks]).tolist() == list(range(run["steps"]))
        evaluated = np.concatenate([block["validation_loss"][block.evaluated] for block in blocks])
        assert float(evaluated[-1]) == run["final_loss"]


@pytest.mark.parametrize(
    ("name", "roles", "labels"),
    [
        ("benign_single_spike", {"faulty": "look-alike", "twin": "twin"}, ["s"]),
        ("benign_entropy_floor", {"faulty": "look-alike"}, ["s"]),
        (
            "corrupt_tokens+high_lr",
            {"faulty": "faulty", "twin": "twin", "cured": "cured"},
            ["s", "s", "cure"],
        ),
    ],
)
def test_a_page_says_what_there_is(name, roles, labels, tmp_path):
    class EnoughError(Exception):
        """Nothing is trained."""

    def opened(show):
        assert show.roles == roles
        assert sorted(mark.label for mark in show.marks) == sorted(labels)
        assert show.title == render(show, "").split("<title>")[1].split(" - Trainwreck")[0]
        raise EnoughError

    with pytest.raises(EnoughError):
        run_live(name, 0, None, None, [], tmp_path / "a.png", opened=opened)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_severity_draws_nothing(tmp_path):
    with pytest.raises(InputError, match="no scale"):
        run_live("mask_missing", 0, Severity.CLEAR, None, TINY, tmp_path / "a.png", quiet=True)
    assert list(tmp_path.iterdir()) == []


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_in_a_terminal_the_curves_are_drawn(tmp_path, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    run_live("mask_missing", 2, None, None, TINY, tmp_path / "a.png")
    drawn = screen.getvalue()
    assert "training loss" in drawn
    assert all(role in drawn for role in ("faulty", "twin", "cured"))


def test_a_curve_without_a_finite_value_is_left_out():
    drawn = _plot({"faulty": np.full(9, np.nan), "twin": np.array([3.0, np.inf, 2.0])}, "next_token", 60, 12)
    assert "twin" in drawn
    assert "faulty" not in drawn


@pytest.mark.parametrize(
    ("objective", "title"),
    [("next_token", "training loss (nats per token)"), ("policy", "training loss (nats per token, then policy loss)")],
)
def test_the_picture_says_what_the_losses_are_in(objective, title):
    assert title in _plot({"twin": np.array([3.0, 2.0])}, objective, 80, 12)
