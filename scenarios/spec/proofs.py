"""The record of what has been proven, as it ships with the package. `proof.record` writes it.

Proofs of scenarios from outside are kept apart, for this user on this machine (`local_path`); `verify` writes them.
"""

import json
import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError

RECORD = "proofs.json"
UNPROVEN = "unproven.json"


def path() -> Path:
    """Where the record lies: beside this file."""
    return Path(str(files("trainwreck.scenarios.spec") / RECORD))


@cache
def recorded() -> list[dict[str, Any]]:
    """Every recorded proof, as `proof.to_rows` makes them."""
    rows: list[dict[str, Any]] = json.loads(path().read_text(encoding="utf-8")) if path().exists() else []
    return rows


def local_path() -> Path:
    """Where the proofs of scenarios from outside are kept: in the user's folder of data, by the XDG standard."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "trainwreck" / "proofs.json"


def proven_here(scenario: str, identity: str, source: str) -> bool:
    """Whether `verify` has proven a scenario from outside on this machine.

    identity: `RunSpec.identity` of the run; source: of the scenario's file, `outside.source_of`.
    """
    return any(
        (row.get("scenario"), row.get("identity"), row.get("source")) == (scenario, identity, source)
        for row in _local()
    )


def enter_here(rows: list[dict[str, Any]]) -> None:
    """Add proofs of scenarios from outside: rows with scenario, identity and source, and what was measured."""
    from trainwreck.evaluation.files import write_json  # which imports what a listing does not need

    new = {(row["scenario"], row["identity"]) for row in rows}
    kept = [row for row in _local() if (row.get("scenario"), row.get("identity")) not in new]
    write_json(local_path(), [*kept, *rows])


def _local() -> list[dict[str, Any]]:
    try:
        found = json.loads(local_path().read_text(encoding="utf-8")) if local_path().is_file() else []
    except ValueError:
        raise InputError(
            f"{local_path()}: damaged, not JSON; allowed: without this file, and proofs made again"
        ) from None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def unproven() -> list[dict[str, str]]:
    """Documented failures that are no scenarios, since no proof of them was found: id, family, fault, tried."""
    rows: list[dict[str, str]] = json.loads((files("trainwreck.scenarios.spec") / UNPROVEN).read_text(encoding="utf-8"))
    return rows


def proven_severities(scenario: str) -> list[str]:
    """Severities of which some size is proven without overrides; the empty one of a scenario without a scale."""
    rows = (r for r in recorded() if r["scenario"] == scenario and r["proven"] and not r["overrides"])
    return list(dict.fromkeys(r["severity"] for r in rows))


def proven_at(scenario: str, identities: dict[tuple[str, str], str]) -> list[str]:
    """Sizes at which a scenario is proven as it is now.

    identities: (size, severity) to `RunSpec.identity`. A size counts where every severity is proven
    without overrides, and the scenario has not changed since.
    """
    rows = [r for r in recorded() if r["scenario"] == scenario and not r["overrides"]]
    good = {
        (r["size"], r["severity"])
        for r in rows
        if r["proven"] and identities.get((r["size"], r["severity"])) == r["identity"]
    }
    sizes = list(dict.fromkeys(size for size, _ in identities))
    return [size for size in sizes if all(key in good for key in identities if key[0] == size)]
