"""The small plans: the demo, and the sample that the package ships."""

from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import RunSpec, unique, with_calibration
from trainwreck.scenarios.spec.scenario import Severity

# The demo takes minutes: runs are as short and small as their proof holds for (results/proof), at the
# severity that harms most. A budget of 5 % of healthy runs stopped needs sixty to calibrate on; there are eight
# of each of its eight bases.
_NARROW = ("model.width=48", "model.context=32", "data.rows=16")
USUAL = (*_NARROW, "steps=480")

# What it shows, and with which settings: failures that every course on training names, and four look-alikes.
DEMO: dict[str, tuple[str, ...]] = {
    "high_lr": (*_NARROW, "model.layers=3", "steps=400"),
    "no_warmup": (),
    "post_ln_depth": ("steps=250",),
    "fp16_attention_overflow": (),
    "corrupt_tokens": USUAL,
    "mask_missing": USUAL,
    "mask_zeroed": USUAL,
    "mask_off_by_one": USUAL,
    "rope_wrong_frequency": USUAL,
    "rope_on_keys_only": USUAL,
    "stale_optimizer_state": USUAL,
    "benign_single_spike": USUAL,
    "benign_entropy_floor": (),
    "benign_late_drop": (),
    "benign_curriculum": (),
}
DEMO_ON_TEXT = ("mask_missing", ("data.source=text", "model.vocab_size=256", "steps=200"))


def demo() -> list[RunSpec]:
    """Each scenario of `DEMO` once, with twin and cure, and what labels need; minutes on 2 cores."""
    specs: list[RunSpec] = []
    for name, overrides in DEMO.items():
        specs += with_calibration(name, range(1), severity=worst(name), overrides=overrides)
    name, overrides = DEMO_ON_TEXT
    specs += with_calibration(name, range(1), overrides=overrides)
    return unique(specs)


# What the package ships (evaluation/sample): failures of six families and four look-alikes on three bases, with
# two seeds of each, in 3 MB.
_SHORT = (*_NARROW, "steps=200")
SAMPLE = (
    "corrupt_tokens",
    "mask_missing",
    "mask_zeroed",
    "gradients_not_cleared",
    "nan_weight_spread",
    "catastrophic_forgetting",
    "output_reinitialised",
    "residual_bypassed",
    "benign_single_spike",
    "benign_clean_resume",
    "benign_loader_hiccup",
)


def sample() -> list[RunSpec]:
    """The small data set that ships with the package; it takes minutes on 2 cores."""
    specs: list[RunSpec] = []
    for name in SAMPLE:
        specs += with_calibration(name, range(2), severity=worst(name), overrides=_SHORT)
    return unique(specs)


def worst(name: str) -> Severity | None:
    """The severity that harms most; None for the scenario's own."""
    return Severity.SEVERE if Severity.SEVERE in scenario(name).severities else None
