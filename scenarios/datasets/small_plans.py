"""The small plans: the demo, and the sample that the package ships. Both have a small train split."""

import dataclasses
from collections.abc import Mapping, Sequence

from trainwreck.scenarios.datasets.standard_plan import marked
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, Split, family_of, unique, with_calibration
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

# What a detector may learn from: of the demo's usual base, and in the sample of six causes; on so many seeds, the
# fewest that `learn` takes, each with its twin. Points of no return are not measured there.
TRAIN_SEEDS = range(2000, 2003)
DEMO_TRAIN = ("corrupt_tokens", "mask_missing", "mask_off_by_one", "rope_wrong_frequency", "benign_single_spike")


def demo() -> list[RunSpec]:
    """Each scenario of `DEMO` once, with twin and cure, what labels need, and a train split; minutes on 2 cores."""
    specs: list[RunSpec] = []
    for name, overrides in DEMO.items():
        specs += with_calibration(name, range(1), severity=worst(name), overrides=overrides)
    name, overrides = DEMO_ON_TEXT
    specs += with_calibration(name, range(1), overrides=overrides)
    return _with_train(specs, {name: DEMO[name] for name in DEMO_TRAIN})


# What the package ships (evaluation/sample): failures of six families and four look-alikes on three bases, with
# two seeds of each, and a train split of six failures and one look-alike, in under 4 MB.
SHORT = (*_NARROW, "steps=200")
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
SAMPLE_TRAIN = (
    "corrupt_tokens",
    "mask_missing",
    "mask_zeroed",
    "gradients_not_cleared",
    "nan_weight_spread",
    "output_reinitialised",
    "benign_single_spike",
)


def sample() -> list[RunSpec]:
    """The small data set that ships with the package; it takes minutes on 2 cores."""
    specs: list[RunSpec] = []
    for name in SAMPLE:
        specs += with_calibration(name, range(2), severity=worst(name), overrides=SHORT)
    return _with_train(specs, dict.fromkeys(SAMPLE_TRAIN, SHORT))


def _with_train(specs: Sequence[RunSpec], train: Mapping[str, tuple[str, ...]]) -> list[RunSpec]:
    """The runs, and a train split: these scenarios with their overrides, without cured runs."""
    more: list[RunSpec] = []
    for name, overrides in train.items():
        roles = (Role.FAULTY, Role.TWIN)
        more += family_of(name, TRAIN_SEEDS, severity=worst(name), overrides=overrides, roles=roles)
    learnt = [dataclasses.replace(spec, split=Split.TRAIN) for spec in more]
    return unique(marked([*specs, *learnt], learnt))


def worst(name: str) -> Severity | None:
    """The severity that harms most; None for the scenario's own."""
    return Severity.SEVERE if Severity.SEVERE in scenario(name).severities else None
