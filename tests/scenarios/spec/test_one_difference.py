"""From twin to faulty run exactly the declared change differs, by its effect on what the loop is given."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from trainwreck.models.parameters import layout
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.spec.compound import leaves
from trainwreck.scenarios.spec.faults import FaultKind
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.training.loop import fresh_state

DECLARED = json.loads(Path(__file__).with_name("differences.json").read_text(encoding="utf-8"))
SEED = 3
AFTER = (*range(10), 20, 40)  # steps from the onset on that are looked at


def state(job, step, spread):
    """A state in mid-run: no two parts of it are the same, nor two steps."""
    made = {}
    for place, (name, value) in enumerate(fresh_state(job).items()):
        drawn = torch.Generator().manual_seed(100 * step + place)
        made[name] = value + spread * torch.rand(value.shape, generator=drawn)
    return made


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return type(a) is type(b) and a == b


def given(job, step, resume):
    """All that the loop is given for a step, by name; the state only where there is a resume in either run."""
    segment = job.segment(step)
    found = {name: value for name, value in leaves(segment.setup).items()}
    for name in ("tables", "parametrization", "updates", "exchange"):
        part = getattr(segment, name)
        found |= {f"{name}.{f.name}": getattr(part, f.name) for f in dataclasses.fields(part)}
    batch = job.batches(range(step, step + 1)).at(0)
    found |= {f"batch.{f.name}": getattr(batch, f.name) for f in dataclasses.fields(batch)}
    found["learning rate"] = job.learning_rate(step)
    found["clock"] = job.seconds(1.0, step)
    if resume:
        now = state(job, step, 1.0)
        earlier = {s: state(job, s, 1.0) for s in job.snapshots()} | {step: now}
        for at in job.resumes(step):
            now = at.change.state(now, earlier, step)
        found |= {f"state.{name}": value for name, value in now.items()}
    return found
