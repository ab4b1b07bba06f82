"""The learning rate of every step."""

import math

from trainwreck.scenarios.config.settings import Decay, Setup

COOLDOWN = 0.2  # share of the steps after the warm-up in which WSD decays (Hu et al. 2024; Hägele et al. 2024)


def learning_rate(setup: Setup, step: int) -> float:
    """Linear warm-up to the peak over `warmup_steps`, then the decay to the last step.

    Step 0 already has a rate over 0: (step + 1) / warmup_steps of the peak. A step that the schedule
    was not made for has the rate of its end.
    """
    schedule, peak = setup.schedule, setup.optimizer.lr
    step *= schedule.calls
    if step < schedule.warmup_steps:
        return peak * (step + 1) / schedule.warmup_steps
    span = max(1, (schedule.total_steps or setup.steps) - schedule.warmup_steps)
    share = min(1.0, (step - schedule.warmup_steps) / span)
    if schedule.decay is Decay.COSINE:
        shape = 0.5 * (1 + math.cos(math.pi * share))
    elif schedule.decay is Decay.LINEAR:
        shape = 1 - share
    elif schedule.decay is Decay.WSD:
        shape = min(1.0, (1 - share) / COOLDOWN)
    else:
        return peak
    return peak * (schedule.final_fraction + (1 - schedule.final_fraction) * shape)
