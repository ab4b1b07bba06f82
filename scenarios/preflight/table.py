"""Which checks catch which scenarios: the checks on faulty runs and their twins, as a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwreck.evaluation.files import write_json, write_text
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.preflight.check import Finding, Verdict, checks, preflight
from trainwreck.scenarios.preflight.view import views
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.spec.scenario import Severity
from trainwreck.scenarios.training.environment import RESULTS, environment, prepare


@dataclass(frozen=True)
class Examined:
    """What the checks said of a scenario's faulty run and of its twin, both before the step of the onset.

    twin is empty for a look-alike that changes nothing and so has none.
    """

    scenario: str
    kind: str
    severity: str
    seed: int
    step: int
    faulty: list[Finding]
    twin: list[Finding]

    def failed(self, role: str) -> list[str]:
        """Names of the checks that fail on the faulty run, or on the twin."""
        return [f.check for f in getattr(self, role) if f.verdict is Verdict.FAIL]

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**vars(self), **{r: [f.to_dict() for f in getattr(self, r)] for r in ("faulty", "twin")}}


def examine(
    name: str,
    *,
    seed: int = 0,
    severity: Severity | None = None,
    size: Size | None = None,
    overrides: Sequence[str] = (),
    names: Sequence[str] = (),
) -> Examined:
    """Ask the checks before the first step under the fault, of the faulty run and of its twin."""
    prepare()
    specs = family_of(name, [seed], severity=severity, size=size, overrides=overrides, roles=(Role.FAULTY, Role.TWIN))
    faulty = specs[0]
    step = faulty.onset or 0
    found = [preflight(subject, names, seed=seed) for subject in views(specs, step)]
    return Examined(
        scenario=name,
        kind="look-alike" if faulty.entry.look_alike else "failing",
        severity=faulty.severity.value if faulty.severity else "",
        seed=seed,
        step=step,
        faulty=found[0],
        twin=[finding for twin in found[1:] for finding in twin],
    )


def examine_all(
    scenarios: Sequence[str], *, seed: int = 0, tick: Callable[[int, int, str], Any] | None = None
) -> list[Examined]:
    """`examine` for several scenarios, at their default severity."""
    found = []
    for done, name in enumerate(scenarios, start=1):
        found.append(examine(name, seed=seed))
        if tick:
            tick(done, len(scenarios), name)
    return found


def record(found: Sequence[Examined], results: Path = RESULTS / "preflight") -> Path:
    """Write README.md, result.json and environment.json to a folder."""
    write_text(results / "README.md", HEAD + markdown(found))
    write_json(results / "result.json", [one.to_dict() for one in found])
    write_json(results / "environment.json", environment())
    return results


def markdown(found: Sequence[Examined]) -> str:
    """The tables that are committed: the checks, and what each scenario's runs make of them."""
    lines = ["| check | passes where | source | scenarios it catches |", "|---|---|---|---|"]
    for check in checks().values():
        caught = [f"`{one.scenario}`" for one in found if check.name in one.failed("faulty")]
        lines.append(f"| `{check.name}` | {check.rule} | {check.source} | {', '.join(caught) or 'none'} |")
    lines += [
        "",
        "| scenario | before step | fails on the faulty run | evidence | fails on the twin |",
        "|" + "---|" * 5,
    ]
    for one in found:
        evidence = "; ".join(f.evidence for f in one.faulty if f.verdict is Verdict.FAIL)
        name = f"`{one.scenario}`" + (f", {one.severity}" if one.severity else "")
        name += " (look-alike)" if one.kind == "look-alike" else ""
        cells = [
            name,
            one.step,
            ", ".join(one.failed("faulty")) or "-",
            evidence or "-",
            ", ".join(one.failed("twin")) or "-",
        ]
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


HEAD = """# The checks before a run, on the catalogue

Made by `trainwreck preflight --all --record` (one scenario: `trainwreck preflight ID`). Each scenario's
faulty run and its twin are checked once, before the first step under the fault: step 0, or the onset of
seed 0. A check that fails on the faulty run catches the fault before a single step is taken under it. A
check that fails on a twin, or on a look-alike, is a false alarm.

Most scenarios are faults of dynamics: nothing is wrong with model and batch, and no check before a run
can see them. That is what the detectors are for.

"""
