"""One scenario as it is trained, in the terminal or on a page: faulty run, twin and cure side by side."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.pages.figures import COLOURS, Story, reduced, save
from trainwreck.evaluation.pages.live_page import LivePage, Mark, Show
from trainwreck.evaluation.progress import progress
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.data.batches import entropy_floor
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, family_of
from trainwreck.scenarios.spec.scenario import Severity
from trainwreck.scenarios.training.backend import CPU, Backend
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import train


def run_live(
    name: str,
    seed: int,
    severity: Severity | None,
    size: Size | None,
    overrides: Sequence[str],
    picture: Path,
    *,
    quiet: bool = False,
    backend: Backend = CPU,
    opened: Callable[[Show], LivePage] | None = None,
) -> dict[str, Any]:
    """Train a scenario's runs of one seed, draw them, and tell what came out.

    opened: gives a page on which the curves move instead of in the terminal; called before anything is trained.
    Writes `picture`. Returns the facts of each run, the onset, and whether the signature holds.
    """
    prepare()
    entry = scenario(name)
    specs = family_of(name, [seed], severity=severity, size=size, overrides=overrides)
    by_role = {spec.role.value: spec for spec in specs}
    total = sum(spec.setup.steps for spec in specs)
    roles = {spec.run_id: spec.role.value for spec in specs}
    faulty = by_role[Role.FAULTY.value]
    cured = by_role.get(Role.CURED.value)
    floor = entropy_floor(faulty.setup)
    title = name + (f", {faulty.severity.value}" if faulty.severity else "") + f", seed {seed}"
    page = opened(_show(title, by_role, floor)) if opened else None
    curves: dict[str, list[np.ndarray]] = {role: [] for role in by_role}
    done = 0
    live = sys.stdout.isatty() and not quiet and page is None
    screen = _Screen() if live else None
    with screen or progress(f"run {name}", quiet=quiet) as tick:

        def watch(block: Trace) -> None:
            nonlocal done
            curves[roles[block.run_id]].append(block["loss"])
            done += len(block)
            if page is not None:
                page.block(roles[block.run_id], block)
            if screen is not None:
                screen.update({role: np.concatenate(parts) for role, parts in curves.items() if parts})
            elif callable(tick):
                tick(done, total, f"{done} run-steps")

        results = train([spec.job() for spec in specs], watch=watch, device=backend.device, impl=backend.impl)
    traces = {role: result.trace for role, result in zip(by_role, results, strict=True)}
    steps = {"s": faulty.onset, "cure": cured.cure_step if cured else None}
    save(Story(title, traces, entry.telling, steps, floor=floor if floor == floor else None), picture)
    held = {}
    if not entry.look_alike:
        held = entry.signatures(traces["faulty"], traces["twin"], seed, faulty.setup.steps)
    if live:
        print(_plot({role: reduced(t, "loss") for role, t in traces.items()}, 72, 16))
    facts = {
        "scenario": entry.id,
        "severity": faulty.severity.value if faulty.severity else None,
        "seed": seed,
        "onset_step": faulty.onset,
        "cure_step": cured.cure_step if cured else None,
        "causes": entry.causes(seed, faulty.setup.steps),
        "signature": all(held.values()) if held else None,
        "signatures": held,
        "backend": backend.to_json(),
        "entropy_floor": floor if floor == floor else None,
        "picture": str(picture),
        "runs": [_facts(by_role[role], trace, traces.get("twin")) for role, trace in traces.items()],
    }
    if page is not None:
        page.finish(facts)
    return facts


def _show(title: str, specs: dict[str, RunSpec], floor: float) -> Show:
    """What the page says before the first step."""
    faulty = specs[Role.FAULTY.value]
    cured = specs.get(Role.CURED.value)
    entry, setup = faulty.entry, faulty.setup
    causes = entry.causes(faulty.seed, setup.steps)
    marks = [Mark(step, "s", f"onset of {id}" if len(causes) > 1 else "onset") for id, step in causes.items()]
    if not marks and faulty.onset is not None:
        marks = [Mark(faulty.onset, "s", "onset")]
    if cured is not None and cured.cure_step is not None:
        marks.append(Mark(cured.cure_step, "cure", "cure"))
    tags = [entry.family_name, "look-alike" if entry.look_alike else "failing"]
    return Show(
        scenario=entry.id,
        title=title,
        lead=entry.title(),
        tags=[*tags, *([faulty.severity.value] if faulty.severity else []), f"seed {faulty.seed}", faulty.size.value],
        sections=entry.page(),
        roles={role: "look-alike" if entry.look_alike and role == Role.FAULTY.value else role for role in specs},
        telling=entry.telling,
        marks=marks,
        steps=setup.steps,
        layers=setup.model.layers,
        floor=floor if floor == floor else None,
    )


def _facts(spec: RunSpec, trace: Trace, twin: Trace | None) -> dict[str, Any]:
    final = trace.final_loss()
    gap = final - twin.final_loss() if twin is not None and twin is not trace else None
    return {
        "role": spec.role.value,
        "run_id": spec.run_id,
        "steps": len(trace),
        "final_loss": final if final == final else None,
        "final_gap": gap if gap is not None and gap == gap else None,
        "finite": trace.finite(),
    }


class _Screen:
    """A terminal picture of the losses, drawn again after every block."""

    def __init__(self) -> None:
        from rich.live import Live

        self.live = Live(refresh_per_second=4, transient=True)

    def __enter__(self) -> "_Screen":
        self.live.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self.live.__exit__(*details)

    def update(self, losses: dict[str, np.ndarray]) -> None:
        """Draw the losses so far, by role."""
        from rich.text import Text

        self.live.update(Text.from_ansi(_plot(losses, self.live.console.width - 2, 18)))


def _plot(curves: dict[str, np.ndarray], width: int, height: int) -> str:
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(width, 100), height)
    plotext.title("training loss (nats/token)")
    for role, curve in curves.items():
        kept = np.isfinite(curve)
        if kept.any():
            colour = tuple(int(COLOURS[role][i : i + 2], 16) for i in (1, 3, 5))
            plotext.plot(
                np.flatnonzero(kept).tolist(), curve[kept].tolist(), label=role, color=colour, marker="braille"
            )
    built: str = plotext.build()
    return built
