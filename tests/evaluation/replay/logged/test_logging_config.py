"""What is drawn for a run: by its id alone, by the stated shares, and each property on its own."""

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.replay.logged import config as stated
from trainwreck.evaluation.replay.logged.config import LoggingConfig, config_of, drawn, pick

IDS = [f"r{i:012x}" for i in range(4000)]
CONFIGS = [config_of(run_id) for run_id in IDS]


def dense(one: LoggingConfig) -> int:
    return one.intervals[1][0] - 1 if one.intervals[0][1] == 1 and len(one.intervals) > 1 else 0


def usual(one: LoggingConfig) -> int:
    """The interval after the first steps."""
    return one.intervals[1][1] if dense(one) in (10, 100) else one.intervals[0][1]


def assert_share(count: int, n: int, share: float, what: str) -> None:
    """Within four standard deviations of the binomial, which one property in 16,000 is not."""
    assert abs(count - share * n) <= 4 * math.sqrt(n * share * (1 - share)), f"{what}: {count} of {n}, {share} stated"


@pytest.mark.parametrize(
    ("shares", "of"),
    [
        (stated.EVALUATED, lambda one: one.evaluated),
        (stated.LOSS, lambda one: one.loss),
        (stated.FACTORS, lambda one: one.factor),
        (stated.DIGITS, lambda one: one.digits),
        (stated.NOT_FINITE, lambda one: one.not_finite),
        ({True: stated.OWN_ROWS, False: 1 - stated.OWN_ROWS}, lambda one: one.own_rows),
        ({True: stated.SHIFTED, False: 1 - stated.SHIFTED}, lambda one: one.shift > 0),
        ({True: stated.GRADIENT_SCALED}, lambda one: one.grad_scale == one.scale),
        ({True: 0.03}, lambda one: len(one.intervals) - (dense(one) in (10, 100)) > 1),
        *(({True: share}, lambda one, name=name: name in one.signals) for name, share in stated.SIGNALS.items()),
    ],
)
def test_shares_are_those_that_are_stated(shares: dict[Any, float], of: Callable[[LoggingConfig], Any]) -> None:
    counts = Counter(map(of, CONFIGS))
    for value, share in shares.items():
        assert_share(counts[value], len(CONFIGS), share, str(value))
    if sum(shares.values()) == pytest.approx(1.0):
        assert set(counts) == set(shares)


def test_intervals_are_those_that_are_stated() -> None:
    plain = [one for one in CONFIGS if len(one.intervals) == 1 or dense(one) in (10, 100)]
    counts = Counter(map(usual, plain))
    for interval, share in stated.INTERVALS.items():
        assert_share(counts[interval], len(plain), share, f"interval {interval}")
    thinned = [one for one in plain if usual(one) > 1]
    first = Counter(map(dense, thinned))
    for steps, share in stated.DENSE.items():
        assert_share(first[steps], len(thinned), share, f"the first {steps} steps")
    assert all(at == sorted(at) for at in ([first for first, _ in one.intervals] for one in CONFIGS))


def test_step_0_has_a_row_where_little_else_has() -> None:
    often = [one for one in CONFIGS if one.intervals[0][1] <= stated.SURELY]
    assert_share(sum(one.from_zero for one in often), len(often), stated.FROM_ZERO, "step 0")
    assert all(one.from_zero for one in CONFIGS if one not in often)


def test_levels_are_those_of_public_logs() -> None:
    starts = np.sort([one.scale * stated.START + one.shift for one in CONFIGS])
    assert 3.0 <= starts[0] < 3.5
    assert 34.5 < starts[-1] <= 35.01
    for share, level in stated.STARTS[1:-1]:
        assert_share(int((starts < level).sum()), len(starts), share, f"starts under {level}")
    assert all(0 <= one.shift <= 0.3 * 35 for one in CONFIGS)  # so that no loss of 0 or more is under 0


def test_a_property_says_nothing_of_another() -> None:
    names = ["intervals", "from_zero", "evaluated", "own_rows", "loss", "digits", "not_finite", "shift"]
    ranks = {name: [drawn(run_id, name) for run_id in IDS] for name in names}
    table = np.corrcoef(list(ranks.values())) - np.eye(len(names))
    assert np.abs(table).max() < 4.5 / math.sqrt(len(IDS))


def test_it_is_the_same_in_another_process() -> None:
    code = (
        "import json, dataclasses; from trainwreck.evaluation.replay.logged.config import config_of; "
        "print(json.dumps([dataclasses.asdict(config_of(f'r{i:012x}')) for i in range(50)]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(found) == json.loads(json.dumps([asdict(one) for one in CONFIGS[:50]]))


def test_it_never_changes() -> None:
    assert config_of("r7f9f9cc02fa5") == LoggingConfig(
        intervals=((0, 1), (101, 100)), signals=("loss", "validation_loss", "lr"), evaluated=50, own_rows=True,
        loss="average", factor=0.98, scale=1.3485, grad_scale=1.3485, digits="4", not_finite="before",
    )  # fmt: skip


@pytest.mark.parametrize("digits", stated.DIGITS)
@pytest.mark.parametrize("value", [0.0, 1 / 3, 11.0321, 1e-6, 3.4e38, math.nan, math.inf, -math.inf])
def test_a_text_is_written_again_as_it_was(digits: str, value: float) -> None:
    one = LoggingConfig(digits=digits)
    once = one.text(value)
    assert one.text(float(np.float32(once))) == once


def test_bfloat16_keeps_eight_bits() -> None:
    one = LoggingConfig(digits="bfloat16")
    assert [one.text(value) for value in (6.4375, 6.45, 1.00390625, 1.01171875, -3.0)] == [
        "6.4375", "6.4375", "1.0", "1.015625", "-3.0",
    ]  # fmt: skip


def test_shares_sum_to_one() -> None:
    tables: tuple[Mapping[Any, float], ...] = (
        stated.INTERVALS, stated.DENSE, stated.EVALUATED, stated.LOSS, stated.FACTORS, stated.DIGITS, stated.NOT_FINITE,
    )  # fmt: skip
    for shares in tables:
        assert sum(shares.values()) == pytest.approx(1.0)
    assert pick(stated.INTERVALS, 1 - 2**-48) == 500
