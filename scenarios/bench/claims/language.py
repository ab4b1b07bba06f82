"""What each part of the transformer is worth on the language, in nats, measured by taking it away."""

import dataclasses
from collections.abc import Callable

import numpy as np
import torch

from trainwreck.evaluation.progress import Tick
from trainwreck.kernels.cross_entropy import cross_entropy
from trainwreck.models.tables import Tables
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.catalogue.attention.mask_zeroed import wipe_scores
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import entropy_floor, validation
from trainwreck.scenarios.data.sources.language import Structure
from trainwreck.scenarios.spec.faults import At, State, TableEdit
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.evaluation import held_out_logits
from trainwreck.scenarios.training.loop import train

SEEDS = range(8)
LANGUAGES = (0, 1, 2)
VALIDATION_ROWS = 384


def unrotated(tables: Tables, setup: Setup) -> Tables:
    """No positions at all."""
    one = torch.ones_like(tables.rotary_q_NTK)
    return dataclasses.replace(tables, rotary_q_NTK=one, rotary_k_NTK=one)


def one_document(tables: Tables, setup: Setup) -> Tables:
    """No document mask."""
    return dataclasses.replace(tables, documents_N=torch.zeros_like(tables.documents_N))


def without_branch(index: int) -> Callable[[Tables, Setup], Tables]:
    """Attention (0) or MLP (1) adds nothing in any layer."""

    def edit(tables: Tables, setup: Setup) -> Tables:
        gain = torch.ones(1, setup.model.layers, 2)
        gain[:, :, index] = 0.0
        return dataclasses.replace(tables, branch_gain_NL2=gain)

    return edit


# What is taken away, and whose tokens need it.
PARTS: tuple[tuple[str, Callable[[Tables, Setup], Tables], tuple[Structure, ...]], ...] = (
    ("mask zeroed", wipe_scores, (Structure.COPY, Structure.ATTRIBUTE_AGAIN)),
    ("no RoPE", unrotated, (Structure.COPY,)),
    ("no document mask", one_document, (Structure.ATTRIBUTE_FIRST, Structure.ATTRIBUTE_AGAIN)),
    ("no attention", without_branch(0), (Structure.COPY, Structure.ATTRIBUTE_AGAIN)),
    ("no MLP", without_branch(1), (Structure.RESULT,)),
)


def parts(tick: Tick) -> Table:
    """Loss over the exact floor, healthy and without each part, on 8 seeds of three languages."""
    prepare()
    rows = []
    for language in LANGUAGES:
        setup = replaced(healthy(Size.MICRO), data__language_seed=language, evaluation__rows=VALIDATION_ROWS)
        setup = replaced(setup, evaluation__every=setup.steps)
        floor = entropy_floor(setup)
        base = _losses(setup, None)
        over = base["all"] - floor
        rows.append((language, "healthy", floor, f"{over.mean():.3f} +- {over.std(ddof=1):.3f}", "", "", ""))
        for name, edit, structures in PARTS:
            lost = _losses(setup, edit)
            gap = lost["all"] - base["all"]
            own = {s.name.lower(): lost[s.name] - base[s.name] for s in structures}
            cells = ", ".join(f"{k} {v.mean():+.2f}" for k, v in own.items())
            least = min(float(v.min()) for v in own.values())
            rows.append(
                (language, name, floor, "", f"{gap.mean():+.3f} +- {gap.std(ddof=1):.3f}", cells, f"{least:+.2f}")
            )
            tick(len(rows), len(LANGUAGES) * (len(PARTS) + 1), f"language {language}: {name}")
    return Table(
        name="language-parts",
        title="Each part of the transformer matters on the language",
        how=(
            f"Healthy micro base, {len(SEEDS)} seeds, full training from step 0 without the part, paired by seed; "
            f"final loss on {VALIDATION_ROWS} held-out rows in nats/token. The floor is the mean exact -ln p of the "
            "same tokens. Own tokens are those whose structure needs the part; the last column is the least loss of "
            "any seed on any of them."
        ),
        command="trainwreck bench language --record",
        columns=(
            "language",
            "model",
            "floor",
            "over the floor",
            "lost, all tokens",
            "lost, own tokens",
            "least of 8 seeds",
        ),
        rows=tuple(rows),
    )


def _losses(setup: Setup, edit: Callable[[Tables, Setup], Tables] | None) -> dict[str, np.ndarray]:
    """Final validation loss of each seed, over all scored tokens and by structure, [seeds]."""
    changes = () if edit is None else (At(0, TableEdit(edit)),)
    jobs = [Job(f"seed{seed}", seed, setup, changes) for seed in SEEDS]
    results = train(jobs, keep={job.run_id: [setup.steps] for job in jobs}, record=False)
    nll = token_losses(jobs, [result.states[setup.steps] for result in results])
    batch, rows = validation(setup)
    structure = rows.structure[0, :, 1:].ravel()
    scored = batch.weights.ravel() > 0
    losses = {"all": nll[:, scored].mean(1)}
    for kind in Structure:
        losses[kind.name] = nll[:, scored & (structure == kind)].mean(1)
    return losses


def token_losses(jobs: list[Job], states: list[State]) -> np.ndarray:
    """-ln p of every validation token under each run's weights, nats, [N, rows * context]."""
    bundle = Bundle(jobs, states, jobs[0].setup.steps)
    parts = []
    with torch.no_grad():
        for logits, targets in held_out_logits(bundle):
            parts.append(cross_entropy(logits, targets).nll_NM)
    return torch.cat(parts, 1).numpy()
