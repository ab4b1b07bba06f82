"""`trainwreck reproducer ID`: writes the program of a proven scenario."""

from pathlib import Path

from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import write_text
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.spec.proofs import proven_severities, unproven
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.scenario import Severity


def write(id: str, out: Path, *, seed: int = 0, severity: Severity | None = None, force: bool = False) -> Path:
    """Write a scenario's program. InputError for one that is not proven, or for a file that is there already."""
    require_proven(id, severity)
    if out.exists() and not force:
        raise InputError(f"out: {str(out)!r} exists; allowed: another name, or --force")
    write_text(out, program_text(Program(id, seed, severity)))
    return out


def require_proven(id: str, severity: Severity | None = None) -> None:
    """InputError for a name that is no proven scenario, or a severity at which it is not."""
    if JOINT in id:
        raise InputError(f"scenario: {id!r} has no program of its own; allowed: single scenarios")
    if id in {row["id"] for row in unproven()}:
        raise InputError(f"scenario: {id!r} is documented but not proven, so there is nothing to reproduce")
    proven = proven_severities(scenario(id).id)
    if not proven or (severity is not None and any(proven) and severity.value not in proven):
        level = f" at severity {severity.value}" if proven and severity else ""
        raise InputError(f"scenario: {id!r} is not proven{level}, so there is nothing to reproduce")
