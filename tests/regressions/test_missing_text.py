"""A run without an outcome has None with pandas 3 too, whose texts are NaN where they are missing: nothing could be read.

pandas 2 makes the same texts by an option.
"""

from typing import Any

import pandas as pd
import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.sample import sample


def kinds(frame: pd.DataFrame) -> dict[str, set[type[Any]]]:
    """The types of the cells of each column of texts."""
    return {name: {type(cell) for cell in frame[name]} for name in ("scenario", "outcome", "harm", "run_id")}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:The 'future.infer_string' option")  # of the option
def test_a_data_set_is_read_as_ever() -> None:
    usual = load(sample()).runs
    with pd.option_context("future.infer_string", True):
        if not pd.Series([None, "a"]).isna()[0] or pd.Series(["a"]).dtype == object:
            pytest.skip("this pandas has no other texts")
        found = load(sample()).runs
    assert kinds(found) == kinds(usual)
    assert type(None) in kinds(found)["outcome"]
    assert found["outcome"].tolist() == usual["outcome"].tolist()
