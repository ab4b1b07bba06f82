"""Every scenario gives the numbers that it gave before: one short faulty run each, against stored checksums.

A run is of the scenario's own size, default severity and seed 0, over STEPS steps, with its onset inside. The
checksum is of the whole telemetry, bitwise, and holds where it was recorded: bits depend on PyTorch, NumPy and
the processor. Elsewhere the loss and the gradient norm of some rows are compared with a tolerance.

`python tests/regressions/test_same_numbers.py` records again, after a change that is meant to move numbers.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, SIGNALS, Role
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Activation, Format, Norm, Placement
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.scenario import Family
from trainwreck.scenarios.training.environment import prepare, processor
from trainwreck.scenarios.training.loop import train

RECORD = Path(__file__).with_suffix(".json")
STEPS = 16
ROWS = (0, STEPS // 2, STEPS - 1)  # whose loss and gradient norm are compared on other processors
# Measured with the kernels of SSE4 in place of AVX2's: the largest relative difference in these rows was 7e-4.
TOLERANCE = 0.01
# Runs that amplify last bits over a few steps (0.1 and more; with products in bfloat16 0.03 in seven steps): how
# many of these rows are compared.
AMPLIFYING = {"missing_branch_norm": 1, "fp16_attention_overflow": 1, "fp16_adam_state": 1, "benign_cache_rounding": 2}
# Faults that meet in one forward pass.
PAIRS = (
    "residual_bypassed+residual_noise",
    "residual_noise+residual_scaled",
    "logits_scaled+residual_bypassed",
    "residual_bypassed+residual_scaled",
    "ffn_scaled+query_key_swapped",
    "missing_branch_norm+vanishing_depth",
    "sqrt_negative+vanishing_depth",
    "loss_scale_collapse+vanishing_depth",
)
# Parts of a model that no scenario has.
MODELS: dict[str, dict[str, Any]] = {
    "rms swiglu qk-norm dropout": {
        "model__norm": Norm.RMS, "model__activation": Activation.SWIGLU, "model__qk_norm": True, "model__bias": False,
        "dropout": 0.1,
    },
    "post-LN relu bf16": {
        "model__placement": Placement.POST, "model__activation": Activation.RELU, "model__residual_gain": 1.5,
        "precision__format": Format.BF16,
    },
    "fp16 batch norm": {"model__norm": Norm.BATCH, "precision__format": Format.FP16, "precision__loss_scale": 64.0},
}  # fmt: skip
GROUPS: dict[str, tuple[str, ...]] = {
    **{f.name.lower(): tuple(id for id, entry in scenarios().items() if entry.family is f) for f in Family},
    "pairs": PAIRS,
    "models": tuple(MODELS),
}


def job(name: str) -> Job:
    if name in MODELS:
        small = {"model__width": 32, "model__heads": 2, "model__context": 32, "data__rows": 4, "steps": STEPS}
        return Job(name, 0, replaced(Setup(), **small, **MODELS[name]))
    entry = scenario(name)
    setup = replaced(entry.base(healthy(entry.sizes[0])), steps=STEPS)
    return Job(name, 0, setup, entry.changes(entry.knobs_of(entry.default_severity()), setup, 0))


def environment() -> dict[str, Any]:
    """Where bits are the same."""
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
    }


# What a run may lack and older checksums do not have.
FIRST_ADDED = {"scored_tokens", "end_probability", "adapter_norm", "float8_saturated", "float8_flushed"}
LATER_SIGNALS = set(ADDED_SIGNALS) - FIRST_ADDED


def checksum(trace: Trace) -> str:
    """SHA-256 of all signals in the schema's order, float32; one NaN is as good as another.

    Signals that came later are left out where a run has none of them, and those of monitors everywhere.
    """
    digest = hashlib.sha256()
    for signal in SIGNALS:
        values = trace[signal.name].astype("<f4")
        if signal.role is Role.MONITOR or (signal.name in LATER_SIGNALS and np.isnan(values).all()):
            continue
        digest.update(np.where(np.isnan(values), np.float32("nan"), values).tobytes())
    return digest.hexdigest()


def numbers(trace: Trace) -> str:
    """Loss and gradient norm of some rows, of the last one where a run ended earlier; seven digits."""
    rows = [min(row, len(trace) - 1) for row in ROWS]
    return " ".join(f"{trace[name][row]:.7g}" for row in rows for name in ("loss", "grad_norm"))


def measured(group: str) -> dict[str, dict[str, str]]:
    prepare()
    results = train([job(name) for name in GROUPS[group]])
    return {r.trace.run_id: {"sha256": checksum(r.trace), "numbers": numbers(r.trace)} for r in results}


def close(name: str, got: str, stored: str) -> bool:
    """Whether numbers agree within the tolerance, NaN with NaN."""
    rows = min(AMPLIFYING.get(part, len(ROWS)) for part in name.split("+"))
    one, other = (np.array(text.split()[: 2 * rows], float) for text in (got, stored))
    return bool(np.allclose(one, other, rtol=TOLERANCE, atol=0, equal_nan=True))


@pytest.mark.parametrize("group", GROUPS)
def test_telemetry_is_what_it_was(group: str) -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    found = measured(group)
    stored = {name: record["runs"][name] for name in GROUPS[group]}
    if record["environment"] == environment():
        changed = [name for name in found if found[name] != stored[name]]
    else:
        changed = [name for name in found if not close(name, found[name]["numbers"], stored[name]["numbers"])]
    assert changed == []


def test_every_scenario_is_recorded_and_nothing_else() -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))["runs"]
    assert sorted(recorded) == sorted([*scenarios(), *PAIRS, *MODELS])


def test_a_last_bit_changes_the_checksum_and_the_sign_of_a_nan_does_not() -> None:
    def trace(value: np.float32) -> Trace:
        return Trace("run", {s.name: np.full(2, value, np.float32) for s in SIGNALS}, np.zeros(2, bool))

    one = np.float32(1)
    assert checksum(trace(one)) != checksum(trace(np.nextafter(one, np.float32(2))))
    assert checksum(trace(np.float32("nan"))) == checksum(trace(-np.float32("nan")))


def main() -> None:
    """Write the record."""
    prepare()
    runs = {name: found for group in GROUPS for name, found in measured(group).items()}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(runs[name])}" for name in sorted(runs))
    where = json.dumps(environment())
    RECORD.write_text(f'{{\n "environment": {where},\n "runs": {{\n{lines}\n }}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
