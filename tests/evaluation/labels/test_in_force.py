"""At which steps a fault is in force, by a row of the runs table."""

import json

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.labels.in_force import UNKNOWN, in_force
from trainwreck.scenarios.spec.run_spec import Role, family_of

STEPS = np.arange(3, 11)


@pytest.mark.parametrize(
    ("kind", "causes", "cure", "expected"),
    [
        ("healthy", {}, None, "00000000"),
        ("look-alike", {}, None, "00000000"),
        ("failing", {"a": 5}, None, "00111111"),
        ("latent", {"a": 5}, None, "00111111"),
        ("not shown", {"a": 5}, None, "00??????"),
        ("cured", {"a": 5}, 8, "00111000"),
        ("compound", {"a": 5, "b": 7}, None, "00111111"),
        ("cured", {"a": 5, "b": 7}, 9, "00??1100"),
        ("cured", {"a": 5, "b": 5}, 9, "00111100"),
        ("cured", {"a": 5, "b": 7}, 7, "00??0000"),  # the cure of b comes with its onset
    ],
)
def test_what_the_row_says(kind: str, causes: dict[str, int], cure: int | None, expected: str) -> None:
    onset = min(causes.values(), default=5 if kind == "look-alike" else None)
    row = {"kind": kind, "onset_step": onset, "cure_step": cure, "causes": json.dumps(causes)}
    found = in_force(pd.Series(row, dtype=object), STEPS)
    assert "".join({0: "0", 1: "1", -1: "?"}[int(one)] for one in found) == expected


@pytest.mark.parametrize("pair", ["corrupt_tokens+high_lr", "label_noise+mask_off_by_one"])
@pytest.mark.parametrize("seed", range(4))
def test_a_cured_pair_is_under_fault_where_the_injection_says(pair: str, seed: int) -> None:
    (spec,) = family_of(pair, [seed], roles=(Role.CURED,))
    length, knobs = spec.setup.steps, spec.knobs
    steps = np.arange(length)
    under = np.zeros(length, bool)
    for part in spec.entry.parts:
        cure = part.cure_step(getattr(knobs, part.id), seed, length)
        under |= (steps >= part.onset_step(seed, length)) & (steps < cure)
    causes = json.dumps(spec.entry.causes(seed, length))
    row = {"kind": "cured", "onset_step": spec.onset, "cure_step": spec.cure_step, "causes": causes}
    found = in_force(pd.Series(row, dtype=object), steps)
    known = found != UNKNOWN
    assert (found[known] == under[known]).all()
    assert known.any()
    assert not under[steps < spec.onset].any()
