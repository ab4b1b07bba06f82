"""The plan `rescue`: runs that policies act on, short enough that a board of them takes minutes.

Failures begin in mid-run, so that there is something to save: a checkpoint from before, and steps left. In the test
split each is given with healthy runs of its base and look-alikes. The train split has ten of the causes, on other
seeds; the rest a policy that was trained on it has not met.
"""

import dataclasses

from trainwreck.scenarios.datasets.small_plans import SHORT, worst
from trainwreck.scenarios.datasets.standard_plan import marked
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, Split, family_of, unique, with_calibration

TRAINED = (
    "corrupt_tokens",
    "mask_missing",
    "mask_zeroed",
    "gradients_not_cleared",
    "nan_weight_spread",
    "poisoned_checkpoint",
    "tokenizer_mismatch",
    "output_reinitialised",
    "query_projection_zeroed",
    "lr_jump",
)
HELD_OUT = (
    "rope_wrong_frequency",
    "sdc_weight_bit",
    "catastrophic_forgetting",
    "stale_optimizer_state",
    "residual_bypassed",
    "mask_inverted",
)
LOOK_ALIKES = ("benign_single_spike", "benign_spike_recovers", "benign_loader_hiccup", "benign_mixture_change")
ALSO_LOOK_ALIKES = ("benign_clean_resume", "benign_warm_restart")  # not in the train split
SEEDS, TRAIN_SEEDS = range(5), range(2000, 2004)


def rescue() -> list[RunSpec]:
    """Every cause on five seeds with its twin, look-alikes, and a train split of four other seeds.

    No run is cured: the oracle does that.
    """
    specs: list[RunSpec] = []
    for name in (*TRAINED, *HELD_OUT, *LOOK_ALIKES, *ALSO_LOOK_ALIKES):
        specs += with_calibration(name, SEEDS, severity=worst(name), overrides=SHORT)
    specs = [spec for spec in specs if spec.role is not Role.CURED]
    train: list[RunSpec] = []
    for name in (*TRAINED, *LOOK_ALIKES):
        roles = (Role.FAULTY, Role.TWIN)
        train += family_of(name, TRAIN_SEEDS, severity=worst(name), overrides=SHORT, roles=roles)
    learnt = [dataclasses.replace(spec, split=Split.TRAIN) for spec in train]
    return unique(marked([*specs, *learnt], learnt))
