"""`trainer_state.json` of the Transformers Trainer: its `log_history`.

The entry that sums the run up (`train_runtime`) is left out: its `train_loss` is the mean over the run.
By default that trainer logs a mean over some steps, in which a NaN loss does not show
(`logging_nan_inf_filter`): what it hid can't be read back.
"""

from collections import Counter
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json
from trainwreck.evaluation.logs.limits import CELL, ROW
from trainwreck.evaluation.logs.log import Asked, Log
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.rows import Row, flat, log_of_rows

NAME = "trainer_state.json"


def read_trainer_state(file: Path, asked: Asked) -> list[Log]:
    """The one run of a file."""
    asked.memory.take_file(file)
    content = read_json(file)
    history = content.get("log_history") if isinstance(content, dict) else None
    if not isinstance(history, list):
        raise InputError(f"{file}: no list under 'log_history'; allowed: trainer_state.json of Transformers")
    rows: list[Row] = []
    rules: Counter[str] = Counter()
    names: dict[str, None] = {}
    for number, entry in enumerate(history):
        place = f"{file}, log_history[{number}]"
        if not isinstance(entry, dict):
            raise InputError(f"{place}: not a JSON object")
        if "train_runtime" in entry:
            rules["summaries left out"] += 1
            continue
        try:
            row = flat(entry)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        asked.memory.take(ROW + CELL * len(row), place)
        rows.append((place, row))
        names |= dict.fromkeys(row)
        asked.memory.limits.check_columns(len(names), place)
    if not rows:
        raise InputError(f"{file}: nothing is logged under 'log_history'")
    log = log_of_rows("trainer_state", file, list(names), rows, asked, Numbers(), writes_nan=True)
    log.rules.update(rules)
    return [log]


def state_of(folder: Path) -> Path | None:
    """The state file of an output folder, or of its last checkpoint; None where there is none."""
    if (folder / NAME).is_file():
        return folder / NAME
    checkpoints = [f.parent for f in folder.glob(f"checkpoint-*/{NAME}") if f.parent.name.rpartition("-")[2].isdigit()]
    last = max(checkpoints, key=lambda found: int(found.name.rpartition("-")[2]), default=None)
    return None if last is None else last / NAME
