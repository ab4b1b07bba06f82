"""Labels checked on healthy runs that they were not made from."""

from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import load, write_manifest, write_runs, write_telemetry
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.stability import NEAR, stability
from trainwreck.evaluation.labels.visible import FEWEST

STEPS, ONSET = 60, 20


def written(folder: Any, make_run: Any, make_trace: Any, *, strange: int = 0, each: int = 2 * FEWEST) -> Any:
    """A base of healthy runs, the last `strange` of them far off, and a failing run that shows at once."""
    traces = [make_trace(f"h{i:02}", seed=i, steps=STEPS) for i in range(each)]
    for trace in traces[each - strange :]:
        trace.signals["loss"] = trace["loss"] + np.float32(50.0 * np.sign(hash_of(trace)))
    late = np.arange(STEPS) >= ONSET
    harmed = {**traces[0].signals, "loss": (traces[0]["loss"] + 30.0 * late).astype(np.float32)}
    rows = [
        make_run(
            t.run_id, seed=i, base="b", kind="healthy", last_step=STEPS - 1, twin_id="", file="telemetry/a.parquet"
        )
        for i, t in enumerate(traces)
    ]
    rows.append(
        make_run(
            "faulty", seed=0, base="b", kind="failing", scenario="high_lr", cause="high_lr", onset_step=ONSET,
            last_step=STEPS - 1, twin_id="h00", file="telemetry/a.parquet",
        )
    )  # fmt: skip
    write_telemetry(folder, "telemetry/a.parquet", [*traces, Trace("faulty", harmed, traces[0].evaluated)])
    write_runs(folder, rows)
    write_manifest(folder, {"plan": "made up"})
    return load(folder)


def hash_of(trace: Trace) -> int:
    return 1 if int(trace.run_id[1:]) % 2 else -1


def test_healthy_runs_alike_are_rarely_visible_and_labels_stand(tmp_path, make_run, make_trace):
    found = stability(written(tmp_path, make_run, make_trace))
    assert (found.bases, found.pairs, found.runs) == (1, 2 * FEWEST, 1)
    assert found.stated_rate == pytest.approx(1 / (FEWEST + 1))
    assert found.measured_rate <= 0.3
    assert found.interval[0] <= found.measured_rate <= found.interval[1]
    assert (found.same_step, found.near, found.off) == (1.0, 1.0, {})
    assert "16 pairs" in found.text()


def test_healthy_runs_that_are_not_alike_are_found_out(tmp_path, make_run, make_trace):
    """One half of them sets levels that the other half, which is elsewhere, does not keep."""
    found = stability(written(tmp_path, make_run, make_trace, strange=FEWEST))
    assert found.measured_rate >= 0.5
    assert found.off == {"high_lr": 1}
    assert found.near < 1.0
    assert NEAR == 2


def test_too_few_healthy_runs_are_refused(tmp_path, make_run, make_trace):
    dataset = written(tmp_path, make_run, make_trace, each=2 * FEWEST - 1)
    with pytest.raises(InputError, match="healthy runs: no base has enough"):
        stability(dataset)
