"""One scenario in the terminal: faulty run, twin and cure side by side, curves as they grow."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainwreck.evaluation.figures import COLOURS, Story, reduced, save
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.trace import Trace
from trainwreck.scenarios.backend import CPU, Backend
from trainwreck.scenarios.batches import entropy_floor
from trainwreck.scenarios.loop import train
from trainwreck.scenarios.plan import Role, RunSpec, family_of
from trainwreck.scenarios.process import prepare
from trainwreck.scenarios.registry import scenario
from trainwreck.scenarios.sizes import Size
from trainwreck.scenarios.spec import Severity


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
) -> dict[str, Any]:
    """Train a scenario's runs of one seed, draw them, and tell what came out.

    Writes `picture`. Returns the facts of each run, the onset, and whether the signature holds.
    """
    prepare()
    entry = scenario(name)
    specs = family_of(name, [seed], severity=severity, size=size, overrides=overrides)
    by_role = {spec.role.value: spec for spec in specs}
    total = sum(spec.setup.steps for spec in specs)
    curves: dict[str, list[np.ndarray]] = {spec.run_id: [] for spec in specs}
    done = 0
    live = sys.stdout.isatty() and not quiet
    screen = _Screen(specs) if live else None
    with screen or progress(f"run {name}", quiet=quiet) as tick:

        def watch(run_id: str, signals: dict[str, np.ndarray]) -> None:
            nonlocal done
            curves[run_id].append(signals["loss"])
            done += len(signals["loss"])
            if screen is not None:
                screen.update({k: np.concatenate(v) for k, v in curves.items() if v})
            elif callable(tick):
                tick(done, total, f"{done} run-steps")

        results = train([spec.job() for spec in specs], watch=watch, device=backend.device, impl=backend.impl)
    traces = {role: result.trace for role, result in zip(by_role, results, strict=True)}
    faulty = by_role[Role.FAULTY.value]
    cured = by_role.get(Role.CURED.value)
    floor = entropy_floor(faulty.setup)
    title = name + (f", {faulty.severity.value}" if faulty.severity else "") + f", seed {seed}"
    steps = {"s": faulty.onset, "cure": cured.cure_step if cured else None}
    save(Story(title, traces, entry.telling, steps, floor=floor if floor == floor else None), picture)
    held = {}
    if not entry.look_alike:
        held = entry.signatures(traces["faulty"], traces["twin"], seed, faulty.setup.steps)
    if live:
        print(_plot({role: reduced(t, "loss") for role, t in traces.items()}, 72, 16))
    return {
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

    def __init__(self, specs: list[RunSpec]) -> None:
        from rich.live import Live

        self.roles = {spec.run_id: spec.role.value for spec in specs}
        self.live = Live(refresh_per_second=4, transient=True)

    def __enter__(self) -> "_Screen":
        self.live.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self.live.__exit__(*details)

    def update(self, losses: dict[str, np.ndarray]) -> None:
        """Draw the losses so far, by run id."""
        from rich.text import Text

        named = {self.roles[run_id]: loss for run_id, loss in losses.items()}
        self.live.update(Text.from_ansi(_plot(named, self.live.console.width - 2, 18)))


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
