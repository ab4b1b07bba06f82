"""A board of a data set without calibration runs ended with an IndexError: an undefined threshold had no level."""

import numpy as np

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.leaderboard.run import leaderboard


def test_recall_at_a_budget_is_undefined() -> None:
    data = load(sample())
    measured = data.runs[data.runs["split"] == "test"]
    table = leaderboard(DataSet(data.path, data.manifest, measured.groupby("kind").head(4)), ["zclip"]).to_frame()
    assert np.isnan(table[["recall_0.05", "recall_seen", "recall_seen_low"]].to_numpy(dtype=float)).all()
    assert table["recall_default"].notna().all()
