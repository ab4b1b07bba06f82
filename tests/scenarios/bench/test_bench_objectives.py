"""`bench objectives`: a row for every objective, with the floor that the code knows."""

import math

import numpy as np
import pytest

from trainwreck.scenarios.bench.claims import objectives
from trainwreck.scenarios.config.bases import captions, facts, refrain
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import entropy_floor


@pytest.fixture
def setup():
    return replaced(
        captions(healthy(Size.MICRO)),
        steps=12, model__width=16, model__heads=2, data__rows=2, evaluation__rows=4, evaluation__every=5,
    )  # fmt: skip


def test_every_objective_has_a_base():
    found = [base(healthy(Size.MICRO)).objective for base, _ in objectives.BASES]
    assert set(found) == set(ObjectiveKind)


def test_a_row_is_of_the_first_and_the_last_evaluation_of_each_seed(setup, monkeypatch):
    monkeypatch.setattr(objectives, "SEEDS", range(2))
    name, kind, what, floor, start, reached, seconds = objectives.row("captions", "both", setup)
    assert (name, kind, what) == ("captions", "modalities", "both")
    assert floor == entropy_floor(setup) > 0
    ends = [[float(word) for word in words.split(" to ")] for words in (start, reached)]
    assert all(floor < low <= high for low, high in ends)
    assert ends[0][0] == pytest.approx(math.log(setup.model.vocab_size), rel=0.1)
    assert ends[1][1] < ends[0][0]
    assert seconds > 0


def test_the_table_names_every_base_and_what_smoothed_labels_leave(setup, monkeypatch):
    monkeypatch.setattr(objectives, "SEEDS", range(1))

    def small(base):
        def made(given):
            return replaced(base(given), steps=3, model__width=16, model__heads=2, data__rows=2, evaluation__rows=2)

        made.__name__ = base.__name__
        return made

    monkeypatch.setattr(objectives, "BASES", ((small(refrain), "verses"), (small(facts), "answers")))
    ticks = []
    table = objectives.where_healthy_runs_end(lambda *args: ticks.append(args))
    assert [row[:4] for row in table.rows] == [
        ("refrain", "decoding", "verses", 0.0), ("facts", "retrieval", "answers", 0.0),
    ]  # fmt: skip
    assert table.how.count("smoothed labels of") == 1
    assert "labels of `refrain` exactly has 0.104" in table.how
    assert ticks[0] == (0, 2, "refrain")
    assert ticks[-1][:2] == (2, 2)


def test_the_smoothed_floor_is_the_least_loss_of_a_certain_token_under_smoothed_labels():
    setup = refrain(healthy(Size.MICRO))
    share, vocabulary = setup.label_smoothing, setup.model.vocab_size
    labels = np.full(vocabulary, share / vocabulary)
    labels[0] += 1 - share
    assert objectives.smoothed_floor(setup) == pytest.approx(-np.log(labels[0]))


def test_evaluations_between_steps_without_one():
    nan = float("nan")
    assert objectives.evaluations(np.array([4.0, nan, 2.0, nan])).tolist() == [4.0, 2.0]
    assert objectives.between(np.array([0.0, 4e-5])) == "0.000 to 4e-05"
