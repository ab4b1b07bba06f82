"""The record of what has been proven: shipped with the package, and as a table under results/."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from trainwreck.evaluation.files import read_json, write_atomically, write_json
from trainwreck.scenarios.process import environment
from trainwreck.scenarios.proof import Proof, markdown, to_rows

RECORD = "proofs.json"


def path() -> Path:
    """Where the record lies: beside this file."""
    return Path(str(files("trainwreck.scenarios") / RECORD))


@cache
def recorded() -> list[dict[str, Any]]:
    """Every recorded proof, as `proof.to_rows` makes them."""
    rows: list[dict[str, Any]] = json.loads(path().read_text(encoding="utf-8")) if path().exists() else []
    return rows


def enter(proofs: Sequence[Proof], results: Path | None = None) -> None:
    """Add proofs to the record, in the place of older ones of the same run set, and write the table.

    results: the folder of the table; `results/proof` of the checkout by default.
    """
    results = results or path().resolve().parent.parent / "results" / "proof"
    rows = {_key(row): row for row in (read_json(path()) if path().exists() else [])}
    rows.update({_key(row): row for row in to_rows(proofs)})
    ordered = sorted(rows.values(), key=_key)
    write_json(path(), ordered)
    text = HEAD + markdown(ordered)
    write_atomically(results / "README.md", lambda temporary: temporary.write_text(text, encoding="utf-8") and None)
    write_json(results / "environment.json", environment())
    recorded.cache_clear()


def proven_at(scenario: str, identities: dict[tuple[str, str], str]) -> list[str]:
    """Sizes at which a scenario is proven as it is now.

    identities: (size, severity) to `proof.identity`. A size counts where every severity is proven
    without overrides, and the scenario has not changed since.
    """
    rows = [r for r in recorded() if r["scenario"] == scenario and not r["overrides"]]
    good = {(r["size"], r["severity"]) for r in rows if r["proven"] and identities.get((r["size"], r["severity"])) == r["identity"]}
    sizes = list(dict.fromkeys(size for size, _ in identities))
    return [size for size in sizes if all(key in good for key in identities if key[0] == size)]


def _key(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["scenario"], row["size"], " ".join(row["overrides"]), row["severity"]


HEAD = """# Proof of the scenarios

Made by `trainwreck verify --record` (one scenario: `trainwreck verify ID --record`). For each seed the
faulty run, its twin and the cured run are trained, and as many healthy runs of further seeds.

- **signature**: share of runs on which the scenario's predicate holds: at least 95 % of faulty runs,
  at most 2 % of twins and of healthy re-seeds (each held against a run of another seed).
- **bitwise twin**: all telemetry before the onset is the twin's to the bit.
- **cured**: share of cured runs that end within tolerance of the twin's final loss, at least 90 %. For
  look-alikes, the one-line detector that is fooled most often, and on what share of the runs.
- **latent**: faulty runs that were not harmed. **v - s**: steps from the onset to the first step at which
  an outcome signal is further from the twin than healthy re-seeds are from each other.
- **final gap**: median validation loss less the twin's, of the runs that end finite. **s/run**: seconds
  on one core, in a bundle.

"""
