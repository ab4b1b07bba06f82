"""Every scenario's exported program, run as anyone would run it, beside the lab's own runs."""

from pathlib import Path

from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.reproducers.agreement import CLOSE, check
from trainwreck.scenarios.spec.registry import scenarios

KEPT = Path("results/runs/reproducers")
HOW = (
    "Each file was run by itself with OMP_NUM_THREADS=1, seed 0 and the default severity; seconds are those of "
    "one core for the twin, the faulty and the cured run together, start of Python included. Exit code 0: the "
    "signature of the proof holds on the faulty run and not on the twin, and the cured run ends within the "
    "proof's tolerance of the twin (of a look-alike: it ends as its twin does). Differences are from the lab's "
    "own runs of the same seed, in nats, where both are finite. float: every training loss of every run, to the last "
    "step, is within "
    "{close:g} of the lab's; signature: rounding has led some run further away than that, after so many steps, "
    "and what is said of it holds all the same."
)


def every_program(tick: Tick) -> Table:
    """All programs; what was run before, of the same text, is not run again."""
    ids = list(scenarios())
    rows = []
    for done, id in enumerate(ids):
        found = check(id, KEPT)
        steps = f"{found.close_for} of {found.all_steps}"
        final = "" if found.final is None else f"{found.final:.1g}"
        rows.append(
            (id, found.exit_code, found.agreement, steps, f"{found.difference:.1g}", final, found.seconds, found.lines)
        )
        tick(done + 1, len(ids), id)
    good, close = sum(row[1] == 0 for row in rows), sum(row[2] == "float" for row in rows)
    return Table(
        name="reproducers",
        title=f"Exported programs: {good} of {len(rows)} exit with 0, {close} are the lab's runs to float tolerance",
        how=HOW.format(close=CLOSE),
        command="trainwreck bench reproducers --record",
        columns=(
            "scenario", "exit code", "agreement", "steps within", "largest difference", "of the final loss",
            "seconds", "lines",
        ),
        rows=tuple(rows),
    )  # fmt: skip
