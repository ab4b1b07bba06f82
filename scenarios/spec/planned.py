"""What the setup of a run has planned for mid-run: every run of it has these changes, faulty or healthy."""

import dataclasses
from collections.abc import Callable

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.models.parameters import LORA_A, LORA_B, Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import At, Setting, Stream, UpdateEdit
from trainwreck.scenarios.spec.scenario import MidRun

GROWTH = MidRun(0.35, 0.5)  # when a token table grows
ADAPTERS = MidRun(0.3, 0.45)  # when adapters are put on, and the rest is frozen

PREFERENCES = MidRun(0.35, 0.4)  # when pairs of answers take the place of text
POLICY = MidRun(0.35, 0.4)  # when rewards of a model's own answers take the place of text


def growth_step(seed: int, steps: int) -> int:
    """The first step with a grown token table: the same in every run of a seed."""
    return GROWTH.step(seed, steps, "growth")


def adapter_step(seed: int, steps: int) -> int:
    """The first step with adapters: the same in every run of a seed."""
    return ADAPTERS.step(seed, steps, "adapters")


def preferences_step(seed: int, steps: int) -> int:
    """The first step on pairs of answers: the same in every run of a seed."""
    return PREFERENCES.step(seed, steps, "preferences")


def policy_step(seed: int, steps: int) -> int:
    """The first step that is trained by rewards: the same in every run of a seed."""
    return POLICY.step(seed, steps, "policy")


def planned(setup: Setup, seed: int) -> tuple[At, ...]:
    """The changes that belong to a setup, and from which step on."""
    found: list[At] = []
    if setup.growth.rows:
        step = growth_step(seed, setup.steps)
        found += [At(step, Setting("model.vocab_size", setup.growth.rows)), At(step, Stream(new_forms(setup)))]
    if setup.adapters.rank:
        step = adapter_step(seed, setup.steps)
        found += [
            At(step, Setting("model.lora_rank", setup.adapters.rank)),
            At(step, Setting("data.language_seed", setup.adapters.language_seed)),
            At(step, UpdateEdit(adapters_alone)),
        ]
    if setup.objective is ObjectiveKind.PREFERENCES and not setup.preferences.begun:
        found.append(At(preferences_step(seed, setup.steps), Setting("preferences.begun", True)))
    if setup.objective is ObjectiveKind.POLICY and not setup.policy.begun:
        found.append(At(policy_step(seed, setup.steps), Setting("policy.begun", True)))
    return tuple(found)


def adapters_alone(updates: Updates, plan: Layout) -> Updates:
    """The base is frozen: gradients arrive at adapters and at the last norm."""
    import torch

    reaches = torch.zeros(1, plan.size, dtype=torch.bool)
    for slot in plan.slots:
        if slot.name.endswith((LORA_A, LORA_B)) or slot.name.startswith("final_norm"):
            reaches[:, slot.start : slot.stop] = True
    return dataclasses.replace(updates, reaches_NP=reaches)


def new_forms(setup: Setup) -> Callable[[Batch, int, int, int], Batch]:
    """Batches in which a share of the tokens is written with the ids of new rows."""
    old, rows, share = setup.model.vocab_size, setup.growth.rows, setup.growth.share

    def written_anew(batch: Batch, step: int, start: int, seed: int) -> Batch:
        tokens = np.concatenate((batch.inputs, batch.targets[:, -1:]), 1)
        new = (generator(seed, "growth", step).random(tokens.shape) < share) & (tokens + old < rows)
        tokens = np.where(new, tokens + old, tokens)
        return dataclasses.replace(batch, inputs=tokens[:, :-1], targets=tokens[:, 1:])

    return written_anew
