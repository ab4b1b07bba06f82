"""The demo's plan: what fifteen failures and look-alikes of a first course on training need, and no more."""

from trainwreck.scenarios.plan import RunSpec, unique, with_calibration
from trainwreck.scenarios.registry import scenario
from trainwreck.scenarios.spec import Severity

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


def worst(name: str) -> Severity | None:
    """The severity that harms most; None for the scenario's own."""
    return Severity.SEVERE if Severity.SEVERE in scenario(name).severities else None
