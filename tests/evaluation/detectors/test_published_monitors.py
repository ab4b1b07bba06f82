"""Each published monitor on a stream worked by hand, at its published defaults."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from trainwreck.evaluation.detectors.frameworks.axolotl_watchdog import AxolotlWatchdog
from trainwreck.evaluation.detectors.frameworks.composer_nan_monitor import ComposerNanMonitor
from trainwreck.evaluation.detectors.frameworks.llm_foundry_kill_loss_spike import LlmFoundryKillLossSpike
from trainwreck.evaluation.detectors.frameworks.megatron_nan import MegatronNan
from trainwreck.evaluation.detectors.frameworks.megatron_spiky import MegatronSpiky
from trainwreck.evaluation.detectors.frameworks.metaseq_skip_spike import MetaseqSkipSpike
from trainwreck.evaluation.detectors.frameworks.olmo_stability import OlmoStability
from trainwreck.evaluation.detectors.frameworks.terminate_on_nan import TerminateOnNan
from trainwreck.evaluation.detectors.published.qk_spectral_entropy import QkSpectralEntropy
from trainwreck.evaluation.detectors.published.router_indicators import RouterIndicators
from trainwreck.evaluation.detectors.published.wandb_zscore import WandbZScore
from trainwreck.evaluation.detectors.published.zclip import ZClip

Stream = Sequence[float | None]


def verdicts(detector: Any, losses: Stream, norms: Stream | None = None, context: Any = None) -> list[Any]:
    detector.reset(context)
    norms = norms or [None] * len(losses)
    return [
        detector.update({"step": step, "loss": loss, "grad_norm": norm})
        for step, (loss, norm) in enumerate(zip(losses, norms, strict=True))
    ]


def alarms(detector: Any, losses: Stream, norms: Stream | None = None, context: Any = None) -> list[int]:
    found = verdicts(detector, losses, norms, context)
    return [step for step, one in enumerate(found) if (one if isinstance(one, bool) else one.alarm)]


def test_composer_lets_infinity_through() -> None:
    assert alarms(ComposerNanMonitor(), [4.0, math.inf, None, math.nan]) == [3]


def test_terminate_on_nan_does_not() -> None:
    assert alarms(TerminateOnNan(), [4.0, math.inf, None, math.nan]) == [1, 3]


def test_megatron_nan_reads_the_gradient_too() -> None:
    assert alarms(MegatronNan(), [4.0, 4.0, math.nan], [1.0, math.inf, None]) == [1, 2]


def test_olmo_stability() -> None:
    # 64 ones and 64 threes: mean 2, standard deviation 1, so that 8 is the last value let through.
    window: Stream = [1.0, 3.0] * 64
    assert alarms(OlmoStability(), [*window, 8.0]) == []
    assert alarms(OlmoStability(), [*window, 8.001]) == [128]
    assert alarms(OlmoStability(), [None] * 129, [*window, 9.0]) == [128]
    assert verdicts(OlmoStability(), [*window, 12.0])[-1].score == 10.0
    assert alarms(OlmoStability(), [*window[1:], 99.0]) == []  # 127 values are no window


def test_olmo_stability_is_silent_on_a_constant_and_after_nan() -> None:
    assert alarms(OlmoStability(), [2.0] * 128 + [9.0]) == []
    calm: Stream = [1.0, 3.0] * 64
    assert alarms(OlmoStability(), [*calm, math.nan, 99.0]) == []
    assert alarms(OlmoStability(), [*calm, math.inf]) == [128]


def test_llm_foundry_fires_on_the_fifth_outlier() -> None:
    # Window mean 2 while the outliers enter it: 2, then (99 x 2 + 10) / 100 = 2.08, 2.16, ... all below 10 / 2.
    calm: Stream = [2.0] * 100
    assert alarms(LlmFoundryKillLossSpike(), [*calm, 10.0, 10.0, 10.0, 10.0]) == []
    assert alarms(LlmFoundryKillLossSpike(), [*calm, 10.0, 10.0, 10.0, 10.0, 10.0]) == [104]
    assert alarms(LlmFoundryKillLossSpike(), [*calm, 10.0, 10.0, 2.0, 10.0, 10.0, 10.0, 10.0]) == []
    assert verdicts(LlmFoundryKillLossSpike(), [*calm, 4.0])[-1].score == 2.0


def test_llm_foundry_fires_when_half_the_window_is_high() -> None:
    # Cap: the largest of the first 100, which is 3. 3.1 is no outlier (mean 2 or more, twice it is 4),
    # but from row 200 on half of the last 100 are above the cap.
    losses: Stream = [3.0, *[2.0] * 99, *[3.1] * 120]
    assert alarms(LlmFoundryKillLossSpike(), losses)[0] == 199
    later: Stream = [3.0, *[2.0] * 169, *[3.1] * 60]
    assert alarms(LlmFoundryKillLossSpike(), later)[0] == 220  # rows 170 to 219 are fifty


def test_llm_foundry_window_follows_a_declared_length() -> None:
    losses: Stream = [2.0] * 150 + [10.0] * 5
    assert alarms(LlmFoundryKillLossSpike(), losses) == [154]
    assert alarms(LlmFoundryKillLossSpike(), losses, context={"planned_steps": 3000}) == [154]  # window 150
    assert alarms(LlmFoundryKillLossSpike(), losses, context={"planned_steps": 3020}) == []  # window 151


def test_llm_foundry_is_blind_for_a_window_after_nan() -> None:
    assert alarms(LlmFoundryKillLossSpike(), [2.0] * 100 + [math.nan] + [50.0] * 5) == []


def test_megatron_spiky() -> None:
    first: Stream = [3.0, *[2.0] * 99]
    assert alarms(MegatronSpiky(), [*first, 29.9, 30.0, 2.0]) == [101]
    assert alarms(MegatronSpiky(), [*first[:-1], 500.0]) == []  # still sampling
    assert alarms(MegatronSpiky(), [*first, math.nan, math.inf]) == []
    assert alarms(MegatronSpiky(), [None] * 101, [*first, -30.0]) == [100]
    # Frozen: a large value after the first 100 raises nothing.
    assert alarms(MegatronSpiky(), [*first, 300.0, 30.0]) == [100, 101]


def test_zclip_by_hand() -> None:
    # Warm-up on 12 ones, 12 threes and a two: mean 2, variance 24/25.
    warmup: Stream = [1.0, 3.0] * 12 + [2.0]
    std = math.sqrt(24 / 25)
    found = verdicts(ZClip(), [None] * 27, [*warmup, 4.0, 6.0])
    assert [one.alarm for one in found] == [False] * 26 + [True]
    assert found[25].score == pytest.approx(2.0 / (std + 1e-6), abs=1e-12)
    mean = 0.97 * 2.0 + 0.03 * 4.0
    variance = 0.97 * 24 / 25 + 0.03 * (4.0 - mean) ** 2
    assert found[26].score == pytest.approx((6.0 - mean) / (math.sqrt(variance) + 1e-6), abs=1e-12)


def test_zclip_averages_the_clipped_norm() -> None:
    warmup: Stream = [1.0, 3.0] * 12 + [2.0]
    detector = ZClip()
    verdicts(detector, [None] * 26, [*warmup, 50.0])
    std = math.sqrt(24 / 25)
    clipped = 2.0 + 2.5 * std / ((48.0 / (std + 1e-6)) / 2.5)
    assert detector.mean == pytest.approx(0.97 * 2.0 + 0.03 * clipped, abs=1e-12)
    assert clipped < 3.0


def test_zclip_is_silenced_for_ever_by_one_nan() -> None:
    assert alarms(ZClip(), [None] * 200, [1.0, 3.0] * 50 + [math.nan] + [1.0, 3.0] * 49 + [900.0]) == []


def test_axolotl_watchdog_wants_three_in_a_row() -> None:
    assert alarms(AxolotlWatchdog(), [5.1, 5.1, 5.0, 5.1, 5.1, None, 5.1, 5.1, math.nan, 9.0]) == [6, 7]


def test_wandb_zscore_goes_both_ways() -> None:
    window: Stream = [1.0, 3.0] * 15  # mean 2, standard deviation 1
    assert alarms(WandbZScore(), [*window, 5.0]) == []
    assert alarms(WandbZScore(), [*window, 5.01]) == [30]
    assert alarms(WandbZScore(), [*window, -1.01]) == [30]
    assert alarms(WandbZScore(), [*window[1:], 99.0]) == []
    assert verdicts(WandbZScore(), [*window, 6.5])[-1].score == 4.5


def test_metaseq_keeps_a_spike_out_of_its_mean() -> None:
    # Span 9 is a weight of 0.2: 4, then 0.8 x 4 + 0.2 x 2 = 3.6.
    found = verdicts(MetaseqSkipSpike(), [4.0, 2.0, 7.2, 7.2, 5.4, 3.6])
    assert [one.score for one in found] == pytest.approx([1.0, 0.5, 2.0, 2.0, 1.5, 3.6 / 3.96], abs=1e-12)
    assert [one.alarm for one in found] == [False, False, True, True, False, False]


def test_metaseq_is_silenced_for_ever_by_one_nan() -> None:
    assert alarms(MetaseqSkipSpike(), [4.0, math.nan, 4.0, 400.0]) == []


def shown(detector: Any, rows: Sequence[dict[str, Any]]) -> list[Any]:
    detector.reset(None)
    return [detector.update({"step": step} | row) for step, row in enumerate(rows)]


def test_qk_spectral_entropy_compares_each_head_with_its_own_start() -> None:
    def alarmed(*entropies: list[float] | None) -> list[bool]:
        return [one.alarm for one in shown(QkSpectralEntropy(), [{"qk_spectral_entropy": x} for x in entropies])]

    assert alarmed([2.0, 1.0], None, [1.0, 1.0], [0.99, 1.0], None) == [False, False, False, True, False]
    assert alarmed([2.0, 0.9], [1.1, 0.8]) == [False, False]  # one head has less than half of another
    assert alarmed([2.0, math.nan], [1.9, 0.1], [math.nan, math.nan]) == [False] * 3
    assert shown(QkSpectralEntropy(), [{"qk_spectral_entropy": [2.0]}, {"qk_spectral_entropy": [0.5]}])[1].score == 4.0
    assert shown(QkSpectralEntropy(), [{}])[0].score == 0.0


def test_router_indicators_fire_on_each_of_three() -> None:
    names = ("expert_load_entropy", "expert_load_max", "router_logit_norm")

    def alarmed(before: tuple[float, ...], after: tuple[float, ...]) -> bool:
        rows = [dict(zip(names, values, strict=True)) for values in [before] * 8 + [after] * 8]
        found = shown(RouterIndicators(), rows)
        assert not any(one.alarm for one in found[:8])
        return bool(found[-1].alarm)

    healthy = (2.5, 0.15, 30.0)
    assert alarmed(healthy, (1.9, 0.15, 30.0))
    assert not alarmed(healthy, (2.0, 0.15, 30.0))
    assert alarmed(healthy, (2.5, 0.34, 30.0))
    assert not alarmed(healthy, (2.5, 0.32, 30.0))
    assert alarmed(healthy, (2.5, 0.15, 61.0))
    assert not alarmed(healthy, (2.5, 0.15, 59.0))
    assert [one.score for one in shown(RouterIndicators(), [{}, {names[0]: 1.0}] * 9)] == [0.0] * 18
