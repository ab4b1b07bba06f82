"""Which setups train: the three reasons to leave one out, and the level that a healthy run has to be under."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from trainwreck.scenarios.config import drawn as stored
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.datasets.wild import measure
from trainwreck.scenarios.datasets.wild.draw import leader, leaders

STEPS = 40
SETUP = replaced(Setup(), steps=STEPS)


class Run(dict):
    """A trace as far as it is read: loss and validation loss, evaluated every ten steps."""

    evaluated = np.arange(STEPS) % 10 == 9

    def __len__(self):
        return len(self["loss"])


def run(start, end, lowest=None):
    """Losses that fall evenly; lowest: of the evaluation before the last."""
    values = np.linspace(start, end, STEPS)
    evaluated = values.copy()
    if lowest is not None:
        evaluated[29] = lowest
    return Run(loss=values, validation_loss=evaluated)


def test_the_level_is_the_entropy_of_the_tokens_frequencies():
    level = measure.token_entropy(SETUP)
    assert 1.0 < level < math.log(64)


def test_a_run_that_learns_is_kept_and_the_others_say_why():
    level = measure.token_entropy(SETUP)
    good = level - 2 * measure.LEARNT
    assert measure.verdict(run(4.2, good), SETUP) == ""
    assert measure.verdict(run(4.2, level), SETUP) == "learnt no more than how frequent each token is"
    assert measure.verdict(run(4.2, good, good - 2 * measure.WORSE), SETUP) == "ends worse than it was"
    broken = run(4.2, good)
    broken["loss"][20] = np.inf
    assert measure.verdict(broken, SETUP) == "not finite"
    assert measure.verdict(run(4.2, good), replaced(SETUP, steps=STEPS + 1)) == "not finite"  # it ended early


def test_under_another_objective_a_run_has_to_leave_its_first_validation_loss():
    setup = replaced(SETUP, objective=ObjectiveKind.RETRIEVAL)
    assert measure.verdict(run(5.0, 3.1), setup) == ""
    assert measure.verdict(run(5.0, 3.9), setup) == "learnt too little"


def test_a_number_that_is_drawn_otherwise_by_now_is_measured_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "FILE", tmp_path / "setups.json")
    rows = {number: measure._row(number, "") for number in range(3)}
    rows[1]["settings"] = rows[1]["settings"] | {"steps": 7}
    measure._write(rows)
    assert sorted(measure._known()) == [0, 2]


@pytest.mark.parametrize("wanted", [1, 2])
def test_it_goes_on_from_what_is_measured_and_writes_what_it_finds(tmp_path, monkeypatch, wanted):
    tried = []

    def verdicts(numbers, width):
        tried.extend(numbers)
        return {number: measure._row(number, "not finite" if number == 1 else "") for number in numbers}

    def at_once(work, pieces, **_):
        for piece in pieces:
            yield type("Result", (), {"value": work(*piece.args, piece.width), "left": None})

    monkeypatch.setattr(stored, "FILE", tmp_path / "setups.json")
    monkeypatch.setattr(measure, "_verdicts", verdicts)
    monkeypatch.setattr(measure, "in_workers", at_once)
    measure.measure(1, workers=1)
    assert sorted(tried) == list(range(len(tried)))
    before = len(tried)
    measure.measure(before + wanted, workers=1)
    assert sorted(tried) == list(range(len(tried)))  # none of them twice
    content = json.loads((tmp_path / "setups.json").read_text())
    assert len(content["setups"]) >= before + wanted
    assert [row["number"] for row in content["rejected"]] == [1]


def test_further_numbers_are_of_the_scenarios_that_few_setups_fit(monkeypatch):
    """As many as a scenario lacks, over all that are known, and no more than it has tries."""
    known = {number: measure._row(number, "") for number in range(2)}
    known |= {
        100 + i: known[0] | {"number": 100 + i, "leader": "no_warmup", "rejected": "not finite"} for i in range(7)
    }
    monkeypatch.setattr(
        measure, "fitting", lambda setup: [id for id in leaders() if id not in ("no_warmup", "high_lr")]
    )
    lot = measure._next_of_each(known, 2)
    assert Counter(leader(number) for number in lot) == {"no_warmup": 1, "high_lr": 2}
    assert min(lot) > 106
    known |= {number: measure._row(number, "") | {"leader": leader(number)} for number in lot}
    monkeypatch.setattr(measure, "fitting", lambda setup: list(leaders()))
    assert measure._next_of_each(known, 2) == []
