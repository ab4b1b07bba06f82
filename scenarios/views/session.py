"""A scenario's runs of one seed, trained side by side: as traces to look at, or shown as they are trained."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.kinds import is_harmed, kind_of, outcome_of
from trainwreck.evaluation.pages.figures import COLOURS, Story, curve_name, draw, gap_unit, png_url, reduced, save, unit
from trainwreck.evaluation.pages.live_page import LivePage, Mark, Show
from trainwreck.evaluation.progress import progress
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.data.batches import entropy_floor
from trainwreck.scenarios.datasets.plans import member
from trainwreck.scenarios.datasets.resources import check_memory
from trainwreck.scenarios.datasets.signatures import signatures
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.compound import Compound
from trainwreck.scenarios.spec.overrides import on_text
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, family_of
from trainwreck.scenarios.spec.scenario import Scenario, Severity
from trainwreck.scenarios.training.backend import CPU, Backend
from trainwreck.scenarios.training.loop import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 80  # of a picture in a notebook
ROLES = tuple(role.value for role in Role)


@dataclass(frozen=True, repr=False)
class Experiment:
    """A scenario's runs of one seed. Use `run`.

    traces: "faulty", "twin" and "cured" to the run's telemetry, as far as they were trained. telling: the signal
    that shows it best. signature: whether what the page says is seen; None for a look-alike, or without a twin.
    kind: of the faulty run by its end and its signature, "failing" or "not shown"; None where signature is.
    floor: entropy of the source in nats/token, under which no honest loss can be; None where it is not known.
    """

    scenario: str
    seed: int
    severity: str  # empty where there is no scale
    traces: dict[str, Trace]
    onset: int | None
    cure_step: int | None
    telling: str
    signature: bool | None
    kind: str | None
    floor: float | None

    def __getitem__(self, role: str) -> Trace:
        """The telemetry of a run by its role. Raises InputError for one that was not trained."""
        if role not in self.traces:
            raise InputError(f"role: {role!r} is not allowed; allowed: {', '.join(self.traces)}")
        return self.traces[role]

    @property
    def title(self) -> str:
        """Scenario, severity and seed in a line."""
        return ", ".join(part for part in (self.scenario, self.severity, f"seed {self.seed}") if part)

    def story(self, *signals: str) -> Story:
        """What its picture shows."""
        steps = {"s": self.onset, "cure": self.cure_step}
        called = _called(scenario(self.scenario))
        return Story(self.title, self.traces, self.telling, steps, floor=self.floor, signals=signals, called=called)

    def figure(self, *signals: str) -> "Figure":
        """A panel for each signal, by default loss, gradient norm and the most diagnostic one; a matplotlib figure."""
        return draw(self.story(*signals))

    def __repr__(self) -> str:
        seen = {None: "", True: ", signature seen", False: ", signature not seen"}[self.signature]
        cure = "" if self.cure_step is None else f", cure at step {self.cure_step}"
        lines = [f"{self.title}: {self.kind or 'trained'}, onset at step {self.onset}{cure}{seen}"]
        for role, trace in self.traces.items():
            in_nats = gap_unit(trace.objective) == "nats"
            of = "nats" if in_nats else f"({unit('validation_loss', trace.objective)})"
            lines.append(f"  {role:6}  {len(trace)} steps, last validation loss {trace.final_loss():.4g} {of}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f'<pre>{escape(repr(self))}</pre><img alt="curves" src="{png_url(self.figure(), DPI)}">'


def run(
    id: str,
    *overrides: str,
    seed: int = 0,
    severity: str | None = None,
    size: str | None = None,
    roles: Sequence[str] = ROLES,
    text: str | Path | None = None,
) -> Experiment:
    """Train a scenario, its twin and its cure, on one core of the CPU; seconds to a minute at the small sizes.

    overrides: settings as on the command line. severity and size: the scenario's own by default. roles: which of
    the runs. text: a file whose bytes are the tokens, in place of the scenario's source. Raises InputError for what is
    not allowed.

        >>> tiny = ("steps=40", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2")
        >>> wreck = run("mask_missing", *tiny, "evaluation.rows=4", seed=2)
        >>> faulty, twin = (wreck[role]["loss"].tolist() for role in ("faulty", "twin"))
        >>> faulty[: wreck.onset] == twin[: wreck.onset], faulty == twin
        (True, False)
    """
    entry = scenario(id)
    overrides += on_text(text)
    wanted = [role for role in (member(Role, "role", name) for name in roles) if role is not None]
    level = member(Severity, "severity", severity)
    specs = family_of(id, [seed], severity=level, size=member(Size, "size", size), overrides=overrides, roles=wanted)
    check_memory(specs)
    if not specs:
        raise InputError(f"roles: {', '.join(roles) or 'none'} is not allowed for {id}; allowed: one that it has")
    for spec in specs:
        spec.check_steps()
    with outside.blamed():
        results = train([spec.job() for spec in specs])
    traces = {spec.role.value: result.trace for spec, result in zip(specs, results, strict=True)}
    first = specs[0]
    onset = next((spec.onset for spec in specs if spec.onset is not None), None)
    held: dict[str, bool] = {}
    if entry.has_signature and {"faulty", "twin"} <= set(traces):
        faulty = next(spec for spec in specs if spec.role is Role.FAULTY)
        held = signatures(entry, traces["faulty"], traces["twin"], faulty)
    return Experiment(
        scenario=entry.id,
        seed=seed,
        severity=next((spec.severity.value for spec in specs if spec.severity), ""),
        traces=traces,
        onset=onset,
        cure_step=next((spec.cure_step for spec in specs if spec.cure_step is not None), None),
        telling=entry.telling,
        signature=all(held.values()) if held else None,
        kind=_kind(entry, traces, held) if held else None,
        floor=_floor(first.setup),
    )


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
    Writes `picture`. Returns the facts of each run, the onset, whether the signature holds, and the faulty run's kind.
    """
    entry = scenario(name)
    specs = family_of(name, [seed], severity=severity, size=size, overrides=overrides)
    check_memory(specs, backend)
    for spec in specs:
        spec.check_steps()
    by_role = {spec.role.value: spec for spec in specs}
    total = sum(spec.setup.steps for spec in specs)
    roles = {spec.run_id: spec.role.value for spec in specs}
    faulty = by_role[Role.FAULTY.value]
    cured = by_role.get(Role.CURED.value)
    floor = _floor(faulty.setup)
    title = name + (f", {faulty.severity.value}" if faulty.severity else "") + f", seed {seed}"
    page = opened(_show(title, by_role, floor)) if opened else None
    curves: dict[str, list[np.ndarray]] = {role: [] for role in by_role}
    done = 0
    live = sys.stdout.isatty() and not quiet and page is None
    objective = faulty.setup.objective.value
    screen = _Screen(objective) if live else None
    with screen or progress(f"run {name}", quiet=quiet) as tick, outside.blamed():

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
    save(Story(title, traces, entry.telling, steps, floor=floor, called=_called(entry)), picture)
    held = signatures(entry, traces["faulty"], traces["twin"], faulty) if entry.has_signature else {}
    if live:
        print(_plot({role: reduced(t, "loss") for role, t in traces.items()}, objective, 72, 16))
    facts = {
        "scenario": entry.id,
        "severity": faulty.severity.value if faulty.severity else None,
        "seed": seed,
        "onset_step": faulty.onset,
        "cure_step": cured.cure_step if cured else None,
        "causes": entry.causes(seed, faulty.setup.steps),
        "signature": all(held.values()) if held else None,
        "signatures": held,
        "harm": entry.harm.value if held else None,
        "kind": _kind(entry, traces, held) if held else None,
        "backend": backend.to_json(),
        "entropy_floor": floor,
        "loss_unit": unit("validation_loss", objective),
        "gap_unit": gap_unit(objective),
        "picture": str(picture),
        "runs": [_facts(by_role[role], trace, traces.get("twin")) for role, trace in traces.items()],
    }
    if page is not None:
        page.finish(facts)
    return facts


def _called(entry: Scenario) -> str:
    return curve_name(RunKind.LOOK_ALIKE.value) if entry.look_alike else curve_name(RunKind.FAILING.value)


def _kind(entry: Scenario, traces: dict[str, Trace], held: dict[str, bool]) -> str:
    """Of the faulty run, by its end alone: without healthy runs of other seeds, harm for a time is not known."""
    if entry.look_alike:
        return RunKind.LOOK_ALIKE.value
    run, twin = traces[Role.FAULTY.value], traces[Role.TWIN.value]
    outcome = outcome_of(run, _gap(run, twin), entry.tolerance, entry.harm)
    return kind_of(is_harmed(outcome, None), any(held.values()), compound=isinstance(entry, Compound)).value


def _gap(run: Trace, twin: Trace) -> float | None:
    gap = run.final_loss() - twin.final_loss()
    return gap if gap == gap else None


def _floor(setup: Setup) -> float | None:
    """Entropy of the source, nats/token; None where it is not known."""
    floor = entropy_floor(setup)
    return None if np.isnan(floor) else floor


def _show(title: str, specs: dict[str, RunSpec], floor: float | None) -> Show:
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
        floor=floor,
    )


def _facts(spec: RunSpec, trace: Trace, twin: Trace | None) -> dict[str, Any]:
    final = trace.final_loss()
    return {
        "role": spec.role.value,
        "run_id": spec.run_id,
        "steps": len(trace),
        "final_loss": final if final == final else None,
        "final_gap": _gap(trace, twin) if twin is not None and twin is not trace else None,
        "finite": trace.finite(),
    }


class _Screen:
    """A terminal picture of the losses, drawn again after every block."""

    def __init__(self, objective: str) -> None:
        from rich.live import Live

        self.objective = objective
        self.live = Live(refresh_per_second=4, transient=True)

    def __enter__(self) -> "_Screen":
        self.live.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self.live.__exit__(*details)

    def update(self, losses: dict[str, np.ndarray]) -> None:
        """Draw the losses so far, by role."""
        from rich.text import Text

        self.live.update(Text.from_ansi(_plot(losses, self.objective, self.live.console.width - 2, 18)))


def _plot(curves: dict[str, np.ndarray], objective: str, width: int, height: int) -> str:
    """Losses by role. objective: of the runs."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(width, 100), height)
    plotext.title(f"training loss ({unit('loss', objective)})")
    for role, curve in curves.items():
        kept = np.isfinite(curve)
        if kept.any():
            colour = tuple(int(COLOURS[role][i : i + 2], 16) for i in (1, 3, 5))
            plotext.plot(
                np.flatnonzero(kept).tolist(), curve[kept].tolist(), label=role, color=colour, marker="braille"
            )
    built: str = plotext.build()
    return built
