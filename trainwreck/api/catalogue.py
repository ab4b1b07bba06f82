"""Functions on the catalogue and its proofs, on programs before they run, and on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.short_forms import Facts, Names, Results

if TYPE_CHECKING:
    from trainwreck.evaluation.detectors.base import Detector
    from trainwreck.scenarios.bench import Table
    from trainwreck.scenarios.preflight import Finding, Preflight
    from trainwreck.scenarios.proof.verify import Proof
    from trainwreck.scenarios.spec.pages import Rows


PROOFS = Path("results/runs/verify")  # where `verify` keeps its runs by default


def catalogue() -> "Rows":
    """One dict a scenario, as `trainwreck list --json`: id, family, kind, severities, sizes, sources, proven, title.

    `.to_frame()` is a table of them.
    """
    from trainwreck.scenarios.spec.pages import Rows, summary

    return Rows(summary())


def show(id: str) -> dict[str, Any]:
    """The page of a scenario: its facts, knobs by severity, and the sections of its text. id: or `mine.py:Mine`.

    Its base in words, the settings in which it is not the default of its size, and the lines of the training program
    that the fault changes are `base`, `settings` and `lines`.
    """
    from trainwreck.scenarios.spec.pages import Page
    from trainwreck.scenarios.views.page import page

    return Page(page(id))


def detectors() -> "dict[str, type[Detector]]":
    """The built-in detectors that can run here, by name."""
    from trainwreck.evaluation.detectors.registry import builtin_detectors

    return Names(builtin_detectors())


def verify(
    *ids: str,
    out: str | Path = PROOFS,
    seeds: int | None = None,
    quick: bool = False,
    severity: str | None = None,
    size: str | None = None,
    overrides: Sequence[str] = (),
    workers: int | None = None,
    text: str | Path | None = None,
) -> "list[Proof]":
    """Train faulty, twin and cured runs of scenarios on many seeds and judge them; one proof a severity.

    out: keeps the runs; a second call only judges. seeds: 8 by default, which a proof needs; with `quick` one, at the
    default severity: `Proof.holds` says what it says, and nothing is proven. text: a file whose bytes the runs are
    trained on.
    """
    from trainwreck.scenarios.config.sizes import Size
    from trainwreck.scenarios.datasets.plans import member
    from trainwreck.scenarios.proof.verify import FEWEST_SEEDS
    from trainwreck.scenarios.proof.verify import verify as prove
    from trainwreck.scenarios.spec.overrides import on_text
    from trainwreck.scenarios.spec.registry import scenario
    from trainwreck.scenarios.spec.scenario import Severity
    from trainwreck.scenarios.training.environment import cores

    if not ids:
        raise InputError("ids: none is not allowed; allowed: one scenario or more")
    if quick and seeds is not None:
        raise InputError(f"seeds: {seeds} is not allowed with quick; allowed: one of them")
    found = prove(
        [scenario(id).id for id in ids],
        Path(out),
        seeds=1 if quick else FEWEST_SEEDS if seeds is None else seeds,
        severity=member(Severity, "severity", severity),
        size=member(Size, "size", size),
        one_severity=quick,
        overrides=[*overrides, *on_text(text)],
        workers=workers or cores(),
    )
    return Results(found)


def reproducer(
    id: str, out: str | Path | None = None, *, seed: int = 0, severity: str | None = None, force: bool = False
) -> Path:
    """Write a proven scenario as one plain PyTorch program, ID.py by default. force: in place of a file."""
    from trainwreck.scenarios.datasets.plans import member
    from trainwreck.scenarios.reproducers.export import write
    from trainwreck.scenarios.spec.scenario import Severity

    level = member(Severity, "severity", severity)
    return write(id, Path(f"{id}.py" if out is None else out), seed=seed, severity=level, force=force)


def preflight(subject: "Preflight | str", names: Sequence[str] = (), *, seed: int = 0) -> "list[Finding]":
    """The checks before a run on a model and a batch; one finding a check, with its verdict and evidence.

    subject: a `Preflight`, or "file.py:function" or "package.module:function" that returns one. names: of checks; all
    by default.
    """
    from trainwreck.scenarios.preflight import from_factory
    from trainwreck.scenarios.preflight import preflight as ask

    return Results(ask(from_factory(subject, seed) if isinstance(subject, str) else subject, names, seed=seed))


def doctor() -> dict[str, Any]:
    """Versions, processors and accelerators of this machine, and what each makes possible."""
    from trainwreck.environment import examine

    return Facts(examine())


def bench(what: str, *, record: bool = False) -> "Table":
    """Measure speed against named peers, or a claim under results/ again: train, score, ... (`trainwreck bench`).

    record: write the result under results/. The table has `rows`, `text()` and `to_dict()`.
    """
    from trainwreck.evaluation.progress import progress
    from trainwreck.scenarios.bench import measure

    with progress(f"bench {what}", quiet=True) as tick:
        return measure(what, tick, record=record)
