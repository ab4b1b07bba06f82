"""Entries that know the label. The harness makes their alarms; they never see a row, and no detector sees a label."""

from collections.abc import Callable

import pandas as pd

from trainwreck.evaluation.dataset.schema import FAILURES, JOINT
from trainwreck.evaluation.replay.alarms import Alarms, labelled_alarms
from trainwreck.evaluation.replay.profiles import visible_step

DELAY = 0.05  # of the run: how late the delayed oracle is


ORACLES: dict[str, Callable[[pd.Series, float], float]] = {
    "oracle_at_onset": lambda run, visible: float(run["onset_step"]),
    "oracle_at_v": lambda run, visible: visible,
    "oracle_delayed": lambda run, visible: float(min(run["last_step"], visible + round(DELAY * run["last_step"]))),
    "oracle_at_no_return": lambda run, visible: float(
        run["last_step"] if pd.isna(run["no_return_step"]) else run["no_return_step"]
    ),
}
"""Name to the step at which it alarms a failing run that is visible at a step; it alarms no other."""

ABOUT_ORACLES = {"rule": "knows the label", "source": "sanity entry"}


def oracle_alarms(name: str, run: pd.Series, profile: str) -> Alarms:
    """The alarms of an oracle on a row of the runs table. A failing run that the profile does not show gets none."""
    step = visible_step(run, profile)
    if run["kind"] not in FAILURES or pd.isna(run["visible_step"]) or step is None:
        return labelled_alarms(run["run_id"], int(run["last_step"]), None)
    first = int(ORACLES[name](run, float(step)))
    return labelled_alarms(run["run_id"], int(run["last_step"]), first, tuple(run["cause"].split(JOINT)))
