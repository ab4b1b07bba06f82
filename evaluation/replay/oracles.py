"""Entries that know the label. The harness makes their alarms; they never see a row, and no detector sees a label."""

from collections.abc import Callable

import pandas as pd

from trainwreck.evaluation.dataset.schema import FAILURES, JOINT
from trainwreck.evaluation.replay.alarms import Alarms, labelled_alarms

DELAY = 0.05  # of the run: how late the delayed oracle is


def _delayed(run: pd.Series) -> float:
    return float(min(run["last_step"], run["visible_step"] + round(DELAY * run["last_step"])))


ORACLES: dict[str, Callable[[pd.Series], float]] = {
    "oracle_at_onset": lambda run: float(run["onset_step"]),
    "oracle_at_v": lambda run: float(run["visible_step"]),
    "oracle_delayed": _delayed,
    "oracle_at_no_return": lambda run: float(
        run["last_step"] if pd.isna(run["no_return_step"]) else run["no_return_step"]
    ),
}
"""Name to the step at which it alarms a failing run; it alarms no other."""

ABOUT_ORACLES = {"rule": "knows the label", "source": "sanity entry"}


def oracle_alarms(name: str, run: pd.Series) -> Alarms:
    """The alarms of an oracle on a row of the runs table. A failing run that is never visible gets none."""
    if run["kind"] not in FAILURES or pd.isna(run["visible_step"]):
        return labelled_alarms(run["run_id"], int(run["last_step"]), None)
    return labelled_alarms(
        run["run_id"], int(run["last_step"]), int(ORACLES[name](run)), tuple(run["cause"].split(JOINT))
    )
