"""A run without an outcome has None with pandas 3 too, whose missing texts are NaN: no data set could be generated.

pandas 2 makes the same texts by an option.
"""

import pandas as pd
import pyarrow as pa
import pytest

from trainwreck.evaluation.dataset.dataset import _frame


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:The 'future.infer_string' option")  # of the option
@pytest.mark.parametrize("outcomes", [[None, "ok"], [None, None]])
def test_it_is_none_with_any_pandas(outcomes: list[str | None]) -> None:
    table = pa.table({"run_id": ["a", "b"], "outcome": pa.array(outcomes, pa.string())})
    with pd.option_context("future.infer_string", True):
        assert _frame(table)["outcome"].tolist() == outcomes
