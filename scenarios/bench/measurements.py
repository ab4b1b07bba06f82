"""The measurements of `trainwreck bench`, by name."""

from importlib import import_module

from trainwreck.evaluation.errors import unknown
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench import record as committed
from trainwreck.scenarios.bench.table import SPEED, Table
from trainwreck.scenarios.training.environment import RESULTS

# Module of this folder and function of each; only the one that is asked for is imported.
MEASUREMENTS = {
    "train": ("train", "against_plain_loop"),
    "generate": ("generate", "against_trainers"),
    "score": ("score", "against_tsb_ad"),
    "attention": ("attention", "against_peers"),
    "cuda": ("cuda", "against_plain_loop"),
    "rescue": ("claims.rescue", "against_plain_runs"),
    "reliability": ("claims.reliability", "under_faults"),
    "reproducers": ("claims.reproducers", "every_program"),
    "starts": ("claims.starts", "every_program"),
    "fidelity": ("claims.fidelity", "beside_the_literature"),
    "language": ("claims.language", "parts"),
    "machines": ("claims.machines", "between_processors"),
    "products": ("claims.products", "beside_float32"),
    "objectives": ("claims.objectives", "where_healthy_runs_end"),
    "wild": ("claims.wild", "which_setups"),
    "replay": ("claims.replay", "one_row_at_a_time"),
}


def measure(what: str, tick: Tick, *, record: bool = False) -> Table:
    """Run a measurement by its name, InputError for another. record: also write it under results/."""
    if what not in MEASUREMENTS:
        raise unknown("bench", what, MEASUREMENTS)
    module, function = MEASUREMENTS[what]
    table: Table = getattr(import_module(f"trainwreck.scenarios.bench.{module}"), function)(tick)
    if record:
        folder = table.record(RESULTS)
        if table.picture:
            committed.save_picture(table, folder / table.picture)
        if table.name.startswith(SPEED):
            committed.write_index(RESULTS / "bench")
        if table.name.startswith("reproducers/"):
            import_module("trainwreck.scenarios.bench.claims.reproducers").write_index(RESULTS / "reproducers")
    return table
