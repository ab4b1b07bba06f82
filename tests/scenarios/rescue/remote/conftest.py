"""Two small runs to act on."""

import pytest

from trainwreck.evaluation.dataset.schema import Harm
from trainwreck.scenarios.rescue.outcomes import Case
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training.loop import train

TINY = (
    "steps=60", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4",
    "evaluation.every=10",
)  # fmt: skip


@pytest.fixture(scope="module")
def pair():
    """A failing run and its healthy twin."""
    specs = family_of("mask_missing", [3], overrides=TINY, roles=(Role.FAULTY, Role.TWIN))
    losses = [result.trace.final_loss() for result in train([spec.job() for spec in specs])]
    kinds = (("failing", 24, 30, 59), ("healthy", None, None, None))
    return [
        Case(spec, kind, ("mask_missing",) * (kind == "failing"), *steps, 0.05, Harm.ABOVE, loss, losses[1])
        for spec, loss, (kind, *steps) in zip(specs, losses, kinds, strict=True)
    ]
