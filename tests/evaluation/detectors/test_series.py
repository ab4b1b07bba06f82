"""The gate: what it alarms at, what it hides, and that it takes the trend out."""

import math
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.base import LARGEST_SCORE, Verdict
from trainwreck.evaluation.detectors.generic.cusum import Cusum, CusumGated
from trainwreck.evaluation.detectors.generic.series import LEAST, Gated, SeriesDetector, Surprise
from trainwreck.evaluation.detectors.registry import known_detectors


class Seen(SeriesDetector):
    """Keeps what it is shown."""

    signals = ("loss", "grad_norm")

    def begin(self) -> None:
        self.rows: list[dict[str, float]] = []

    def step(self, values: Any) -> Verdict:
        self.rows.append(dict(values))
        return Verdict(0.0)


class SeenGated(Gated, Seen):
    pass


def shown(detector: Seen, rows: list[dict[str, Any]]) -> list[Verdict]:
    detector.reset(None)
    return [detector.update({"step": step} | row) for step, row in enumerate(rows)]


def noisy(seed: int, rows: int, rate: float = 0.01) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(rows)
    return np.asarray(4.0 * np.exp(-rate * np.arange(rows)) * (1.0 + 0.01 * noise))


def surprises(values: np.ndarray) -> np.ndarray:
    surprise = Surprise()
    found = [surprise.push(float(value)) for value in values]
    assert found[:LEAST] == [None] * 24
    return np.array([z for z in found if z is not None], float)


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.05])
def test_a_falling_loss_gives_noise_of_scale_one_about_nothing(rate: float) -> None:
    found = surprises(noisy(1, 400, rate))
    assert abs(found.mean()) < 0.1
    assert 0.9 < found.std() < 1.4
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.3
    if rate:  # which the raw logarithm is far from
        raw = np.log(noisy(1, 400, rate))
        assert np.corrcoef(raw[1:], raw[:-1])[0, 1] > 0.95


def test_it_is_the_residual_of_a_least_squares_line_while_the_run_is_young() -> None:
    """Row 10 against a line fitted to rows 0 to 9 by NumPy: the smoothing does the same one row at a time."""
    values = noisy(2, 11)
    line = np.polyfit(np.arange(10), np.log(values[:10]), 1)
    surprise = Surprise()
    for value in values[:10]:
        surprise.push(float(value))
    assert surprise.level + surprise.slope == pytest.approx(np.polyval(line, 10), abs=1e-9)


def test_a_jump_stands_out_and_one_outlier_does_not_spoil_the_scale() -> None:
    calm = noisy(3, 200)
    spiked = calm.copy()
    spiked[100] *= 3.0
    assert surprises(spiked)[100 - LEAST] == 20.0
    assert np.abs(surprises(spiked)[130 - LEAST :]).max() < 5.0
    jumped = calm.copy()
    jumped[100:] *= 1.5
    assert surprises(jumped)[100 - LEAST : 103 - LEAST].min() > 10.0  # the trend takes some rows to follow


def test_a_loss_that_is_not_finite_alarms_and_is_not_shown() -> None:
    rows = [{"loss": 4.0, "grad_norm": 1.0}] * 40
    broken = [{"loss": math.nan}, {"loss": -math.inf}, {"loss": 4.0, "grad_norm": math.nan, "skipped": 0.0}]
    detector = SeenGated()
    verdicts = shown(detector, [*rows, *broken, *rows])
    assert [step for step, one in enumerate(verdicts) if one.alarm] == [40, 41, 42]
    assert verdicts[40].score == LARGEST_SCORE
    assert len(detector.rows) == 80 - LEAST
    assert all(math.isfinite(value) for row in detector.rows for value in row.values())
    raw = Seen()
    shown(raw, [*rows, *broken, *rows])
    assert math.isnan(raw.rows[40]["loss"])  # which a raw detector is shown


def test_a_step_that_fp16_skipped_is_routine() -> None:
    rows = [{"loss": 4.0, "grad_norm": 1.0}] * 40
    detector = SeenGated()
    verdicts = shown(detector, [*rows, {"loss": 4.0, "grad_norm": math.inf, "skipped": 1.0}])
    assert not verdicts[-1].alarm
    assert set(detector.rows[-1]) == {"loss"}
    assert set(detector.rows[-2]) == {"loss", "grad_norm"}


def test_a_row_without_a_loss_is_passed_over() -> None:
    for detector in (Seen(), SeenGated()):
        shown(detector, [{"loss": None, "grad_norm": 1.0}] * 50)
        assert detector.rows == []


def test_every_generic_detector_stands_twice_and_reads_the_same() -> None:
    known = known_detectors()
    gated = {name.removesuffix("_gated"): one for name, one in known.items() if issubclass(one, Gated)}
    generic = {n: one for n, one in known.items() if issubclass(one, SeriesDetector) and not issubclass(one, Gated)}
    assert set(gated) == set(generic) == {
        "adwin", "bocpd", "capa", "cusum", "ecod", "half_space_trees", "iforest", "kswin", "matrix_profile",
        "page_hinkley", "pelt",
    }  # fmt: skip
    for name, one in gated.items():
        assert issubclass(one, generic[name])
        assert one.signals == generic[name].signals
        assert one.blind_spots != generic[name].blind_spots
        assert one.rule.startswith("gate; ")


@pytest.mark.parametrize("seed", range(3))
def test_the_gate_is_what_tells_a_healthy_run_from_a_failing_one(seed: int) -> None:
    calm = noisy(seed, 300)
    climbing = calm * np.exp(np.maximum(0, np.arange(300) - 200) / 20.0)
    worst = {}
    for detector in (Cusum(), CusumGated()):
        for what, losses in (("calm", calm), ("climbing", climbing)):
            detector.reset(None)
            worst[type(detector), what] = max(detector.update({"loss": float(x)}).score for x in losses)
    assert worst[Cusum, "climbing"] < 1.5 * worst[Cusum, "calm"]
    assert worst[CusumGated, "climbing"] > 1.5 * worst[CusumGated, "calm"]
