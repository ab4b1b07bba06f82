"""What the learned detector reads off the rows, beside direct computations."""

import math
import pickle
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import SIGNALS, Axis
from trainwreck.evaluation.detectors.learned.features import (
    BEGUN,
    FAST,
    FAST_SHARE,
    NAMES,
    NARROWEST,
    SLOW,
    SLOW_SHARE,
    Features,
)

PLACE = {name: i for i, name in enumerate(NAMES)}


def seen(rows: list[dict[str, Any]]) -> np.ndarray:
    """The features after the last of some rows."""
    features = Features()
    return [features.see(row) for row in rows][-1]


def losses(values: list[Any], every: int = 1) -> list[dict[str, Any]]:
    return [{"step": every * i, "loss": value} for i, value in enumerate(values)]


def test_every_feature_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES) == len(seen(losses([4.0])))


def test_averages_are_what_a_loop_over_the_values_says() -> None:
    values = [4.0, 3.0, 5.0, 2.0, 2.5, 1.5, 1.4, 9.0]
    x = np.log(values)
    fast = slow = low = high = x[0]
    variance, rough, z = BEGUN**2, 0.0, 0.0
    for step, one in enumerate(x):
        if step:
            away = one - slow
            z = away / math.sqrt(variance + NARROWEST**2)
            quick = 1 - math.exp(-1 / max(FAST, FAST_SHARE * step))
            slowly = 1 - math.exp(-1 / max(SLOW, SLOW_SHARE * step))
            rough += quick * (abs(z) - rough)
            variance = (1 - slowly) * (variance + slowly * away**2)
            slow += slowly * away
            fast += quick * (one - fast)
        low, high = min(low, fast), max(high, fast)
    spread = math.sqrt(variance + NARROWEST**2)
    found = seen(losses(values))
    for way, value in {
        "level": fast,
        "jump": math.asinh(z),
        "shift": math.asinh((fast - slow) / spread),
        "over its least": fast - low,
        "under its largest": high - fast,
        "spread": math.log(spread),
        "roughness": math.log1p(rough),
    }.items():
        assert found[PLACE[f"loss: {way}"]] == pytest.approx(value, abs=1e-12), way


def test_the_start_is_the_level_after_the_first_steps() -> None:
    flat, fallen = seen(losses([4.0] * 30)), seen(losses([4.0] * 10 + [1.0] * 60))
    assert flat[PLACE["loss: since the start"]] == 0.0
    assert fallen[PLACE["loss: since the start"]] == pytest.approx(math.log(1.0 / 4.0), abs=1e-3)


def test_the_logging_interval_hardly_matters() -> None:
    curve = [2.0 + 2.0 * math.exp(-i / 80.0) for i in range(301)]
    every, tenth = seen(losses(curve)), seen(losses(curve[::10], every=10))
    for way in ("level", "since the start", "over its least"):
        assert every[PLACE[f"loss: {way}"]] == pytest.approx(tenth[PLACE[f"loss: {way}"]], abs=0.05)


@pytest.mark.parametrize("gap", [None, math.nan, math.inf])
def test_a_missing_value_changes_no_average(gap: Any) -> None:
    before = seen(losses([4.0, 3.9, 3.8]))
    after = seen(losses([4.0, 3.9, 3.8, gap]))
    of_loss = [i for i, name in enumerate(NAMES) if name.startswith("loss: ")]
    assert after[of_loss].tolist() == before[of_loss].tolist()


def test_what_was_never_logged_is_unknown() -> None:
    found = seen(losses([4.0, 3.0]))
    assert np.isnan(found[PLACE["grad_norm: level"]])
    assert np.isnan(found[PLACE["attention_entropy tilt: level"]])


def test_what_is_not_finite_is_told_and_a_skipped_step_is_none() -> None:
    def flag(name: str, **row: Any) -> float:
        return float(seen([{"step": 0, "loss": 4.0, "grad_norm": 1.0} | row])[PLACE[f"{name}: level"]])

    assert flag("loss not finite or 0") == 0.0
    assert flag("loss not finite or 0", loss=math.nan) == 1.0
    assert flag("loss not finite or 0", loss=0.0) == 1.0
    assert flag("gradient norm not finite", grad_norm=math.inf) == 1.0
    assert flag("gradient norm not finite", grad_norm=math.inf, skipped=1.0) == 0.0
    assert flag("list not finite", attention_logit_max=[1.0, math.inf]) == 1.0
    assert flag("list not finite", age_loss=[4.0, math.nan]) == 0.0  # no token is that old


def test_lists_are_reduced() -> None:
    values = [0.5, 2.0, 1.0]
    found = seen([{"step": 0, "layer_grad_norm": values, "attention_distance": [3.0, 1.0]}])
    x, y = np.log(values), np.arcsinh([3.0, 1.0])
    for name, logged in (("layer_grad_norm", x), ("attention_distance", y)):
        reduced = {
            "mean": logged.mean(),
            "spread": np.ptp(logged),
            "largest": logged.max(),
            "first": logged[0],
            "tilt": logged[-1] - logged[0],
        }
        for how, value in reduced.items():
            assert found[PLACE[f"{name} {how}: level"]] == pytest.approx(value, abs=1e-12)


def test_relations() -> None:
    row = {"step": 0, "loss": 2.0, "token_entropy": 4.0, "row_loss_max": 3.0, "grad_norm": 10.0, "clip_coef": 0.1}
    found = seen([row | {"validation_loss": 3.0, "fresh_loss": 6.0}])
    for name, value in {
        "loss less token entropy": math.log(0.5),
        "validation loss less loss": math.log(1.5),
        "fresh loss less validation loss": math.log(2.0),
        "largest row loss less loss": math.log(1.5),
        "gradient norm after clipping": 0.0,
    }.items():
        assert found[PLACE[f"{name}: level"]] == pytest.approx(value, abs=1e-12), name


def test_ranks_and_repeats() -> None:
    def rows(hashes: list[list[float]]) -> list[dict[str, Any]]:
        return [{"step": step, "rank_batch_hash": one} for step, one in enumerate(hashes)]

    assert seen(rows([[1.0, 2.0, 3.0]]))[PLACE["rank_batch_hash differing: level"]] == 1.0
    assert seen(rows([[1.0, 1.0, 1.0]]))[PLACE["rank_batch_hash differing: level"]] == 0.0
    assert seen(rows([[1.0], [2.0]]))[PLACE["rank_batch_hash repeated: over its least"]] == 0.0
    assert seen(rows([[1.0], [2.0], [1.0]]))[PLACE["rank_batch_hash repeated: over its least"]] > 0.0


def test_the_state_does_not_grow() -> None:
    features = Features()
    sizes = []
    for step in range(2000):
        features.see({"step": step, "loss": 4.0, "rank_batch_hash": [float(step)]})
        if step in (200, 1999):
            sizes.append(len(pickle.dumps(features)))
    assert abs(sizes[1] - sizes[0]) < 100


def test_no_number_is_out_of_bounds() -> None:
    wild = [1e-30, 3e38, -3e38, math.nan, math.inf, -math.inf, 0.0]
    features = Features()
    for step in range(40):
        row: dict[str, Any] = {"step": step}
        for i, signal in enumerate(SIGNALS):
            value = wild[(step + i) % len(wild)]
            row[signal.name] = value if signal.axis is Axis.SCALAR else [value] * 3
        found = features.see(row)
        assert np.abs(found[~np.isnan(found)]).max() < 1e6
