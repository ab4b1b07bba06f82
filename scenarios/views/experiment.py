"""One scenario in a Python session: trained with its twin and its cure, as traces to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.figures import Story, draw
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.data.batches import entropy_floor
from trainwreck.scenarios.datasets.plans import member
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.spec.scenario import Severity
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROLES = tuple(role.value for role in Role)


@dataclass(frozen=True)
class Experiment:
    """A scenario's runs of one seed. Use `run`.

    traces: "faulty", "twin" and "cured" to the run's telemetry, as far as they were trained. telling: the signal
    that shows it best. signature: whether what the page says is seen; None for a look-alike, or without a twin.
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
    floor: float | None

    def __getitem__(self, role: str) -> Trace:
        """The telemetry of a run by its role. Raises InputError for one that was not trained."""
        if role not in self.traces:
            raise InputError(f"role: {role!r} is not allowed; allowed: {', '.join(self.traces)}")
        return self.traces[role]

    def figure(self, *signals: str) -> "Figure":
        """A panel for each signal, by default loss, gradient norm and the one that tells; a matplotlib figure."""
        title = ", ".join(part for part in (self.scenario, self.severity, f"seed {self.seed}") if part)
        steps = {"s": self.onset, "cure": self.cure_step}
        return draw(Story(title, self.traces, self.telling, steps, floor=self.floor, signals=signals))


def run(
    id: str,
    *overrides: str,
    seed: int = 0,
    severity: str | None = None,
    size: str | None = None,
    roles: Sequence[str] = ROLES,
) -> Experiment:
    """Train a scenario, its twin and its cure, on one core of the CPU; seconds to a minute at the small sizes.

    overrides: settings as on the command line. severity and size: the scenario's own by default. roles: which of
    the runs. Raises InputError for what is not allowed.

        >>> tiny = ("steps=40", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2")
        >>> wreck = run("mask_missing", *tiny, "evaluation.rows=4", seed=2)
        >>> faulty, twin = (wreck[role]["loss"].tolist() for role in ("faulty", "twin"))
        >>> faulty[: wreck.onset] == twin[: wreck.onset], faulty == twin
        (True, False)
    """
    prepare()
    entry = scenario(id)
    wanted = [role for role in (member(Role, "role", name) for name in roles) if role is not None]
    level = member(Severity, "severity", severity)
    specs = family_of(id, [seed], severity=level, size=member(Size, "size", size), overrides=overrides, roles=wanted)
    if not specs:
        raise InputError(f"roles: {', '.join(roles) or 'none'} is not allowed for {id}; allowed: one that it has")
    results = train([spec.job() for spec in specs])
    traces = {spec.role.value: result.trace for spec, result in zip(specs, results, strict=True)}
    first = specs[0]
    onset = next((spec.onset for spec in specs if spec.onset is not None), None)
    signature = None
    if not entry.look_alike and {"faulty", "twin"} <= set(traces):
        signature = all(entry.signatures(traces["faulty"], traces["twin"], seed, first.setup.steps).values())
    floor = entropy_floor(first.setup)
    return Experiment(
        scenario=entry.id,
        seed=seed,
        severity=next((spec.severity.value for spec in specs if spec.severity), ""),
        traces=traces,
        onset=onset,
        cure_step=next((spec.cure_step for spec in specs if spec.cure_step is not None), None),
        telling=entry.telling,
        signature=signature,
        floor=floor if floor == floor else None,
    )
