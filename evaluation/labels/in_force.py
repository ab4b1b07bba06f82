"""At which steps of a run a fault is in force, as far as its row of the runs table says.

    run                  no fault                       a fault              not known
    healthy, look-alike  all steps
    failing, compound,   before the onset               from the onset on
    latent
    cured                before the onset, and from     in between
                         the step of the cure on
    cured, of two        before the earlier onset, and  from the later       from the earlier onset
    causes               from the step of the cure on   onset to the cure    to the later one
    not shown            before the onset                                    from the onset on

A cured run of two causes has two cures, and its row the later one (`cure_step`). From the later onset to that step one
fault or the other is in force; but the first may have been cured before the second began. A fault that is not shown is
there, and nothing of it is to be seen.
"""

import json

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.schema import RunKind

NO, YES, UNKNOWN = 0, 1, -1
NEVER = (RunKind.HEALTHY.value, RunKind.LOOK_ALIKE.value)


def in_force(run: pd.Series, steps: np.ndarray) -> np.ndarray:
    """NO, YES or UNKNOWN at each step, int8 [S]. run: a row of the runs table; steps: [S]."""
    found = np.full(len(steps), NO, np.int8)
    if run["kind"] in NEVER or pd.isna(run["onset_step"]):
        return found
    found[steps >= run["onset_step"]] = UNKNOWN if run["kind"] == RunKind.NOT_SHOWN.value else YES
    if run["kind"] == RunKind.CURED.value:
        later = max(json.loads(run["causes"] or "{}").values(), default=run["onset_step"])
        found[(steps >= run["onset_step"]) & (steps < later)] = UNKNOWN
        found[steps >= run["cure_step"]] = NO
    return found
