"""The signature in a program says of runs what the scenario's own says."""

import numpy as np
import pytest

from trainwreck.evaluation.dataset import sample as shipped
from trainwreck.evaluation.dataset.dataset import load
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.spec.registry import scenario


@pytest.fixture(scope="module")
def sample():
    return load(shipped.sample())


def as_dict(trace):
    return {name: np.asarray(values) for name, values in trace.signals.items()}


def test_on_every_failing_run_of_the_sample(sample):
    rows = sample.runs
    held = []
    for id in sorted(set(rows.loc[rows["kind"] == "failing", "scenario"])):
        if "+" in id:
            continue
        space = {"__name__": id}
        exec(compile(program_text(Program(id)), id, "exec"), space)
        entry = scenario(id)
        for run_id, row in rows[(rows["scenario"] == id) & (rows["kind"] == "failing")].iterrows():
            onset, run, twin = int(row["onset_step"]), sample.trace(run_id), sample.trace(row["twin_id"])
            for one in (run, twin):
                found = space["signature"](as_dict(one), as_dict(twin), onset)
                assert found == entry.signature(one, twin, onset), id
                held.append(entry.holds(one, twin, onset))
    assert {True, False} == set(held)
    assert len(held) > 30
