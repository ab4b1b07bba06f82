"""A small valid data set with analytic curves, and builders for single traces, rows and records."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from trainwreck.evaluation.dataset.dataset import DataSet, load, write_manifest, write_runs, write_telemetry
from trainwreck.evaluation.dataset.schema import (
    ADDED_SIGNALS,
    EVALUATED,
    FAILURES,
    OF_OBJECTIVES,
    RUN_FIELDS,
    SIGNALS,
    Axis,
)
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.files import write_json

# The same examples every time, and no failure for a machine that is busy.
settings.register_profile("trainwreck", deadline=None, derandomize=True, database=None)
settings.load_profile("trainwreck")

STEPS = 120
WIDTH = {Axis.LAYERS: 4, Axis.BLOCKS: 2, Axis.HEADS: 4, Axis.POSITIONS: 8, Axis.AGES: 8, Axis.RANKS: 1, Axis.GROUPS: 4}

# Level of each signal in a healthy run; the loss and the gradient norm have curves of their own.
LEVEL = {
    "layer_grad_norm": 0.5,
    "clip_coef": 1.0, "lr": 1e-2, "loss_scale": 1.0, "skipped": 0.0, "tokens_per_second": 1e4,
    "token_entropy": 3.2, "unique_share": 0.9, "pad_share": 0.0, "nonfinite_grads": 0.0, "zero_grads": 0.0,
    "nonfinite_weights": 0.0, "log_z": 4.0, "output_max": 6.0, "dead_share": 0.0,
    "attention_mass_future": 0.0, "attention_mass_other_document": 0.0, "attention_mass_padding": 0.0,
    "attention_logit_max": 12.0, "attention_distance": 8.0, "attention_mass_self": 0.2,
    "float8_saturated": 1e-4, "float8_flushed": 1e-3, "cache_gap": 1e-6, "neighbour_gap": 1e-6,
    "expert_load_entropy": 2.7, "expert_load_max": 0.1, "expert_dropped": 0.03, "router_logit_norm": 30.0,
    "balance_loss": 1.1,
}  # fmt: skip
EXACT = {"clip_coef", "lr", "loss_scale", "skipped", "pad_share", "nonfinite_grads", "nonfinite_weights"} | {
    *(name for name in LEVEL if name.startswith("attention_mass_") and name != "attention_mass_self"),
    *OF_OBJECTIVES,
    *EVALUATED,
}


def _trace(run_id: str, *, seed: int = 0, steps: int = STEPS, **changed: np.ndarray) -> Trace:
    random, apart = np.random.default_rng(seed), np.random.default_rng(seed + 10**6)
    signals: dict[str, np.ndarray] = {}
    for signal in SIGNALS:
        draw = apart if signal.name in ADDED_SIGNALS else random  # a signal that is added moves no other
        shape = (steps,) if signal.axis is Axis.SCALAR else (steps, WIDTH[signal.axis])
        noise = np.zeros(shape) if signal.name in EXACT else 0.02 * draw.standard_normal(shape)
        signals[signal.name] = (LEVEL.get(signal.name, 1.0) * (1.0 + noise)).astype(np.float32)
    signals["kl"] = np.full(steps, np.nan, np.float32)  # its loss is one of tokens, and not of rewards
    fall = 2.0 + 2.0 * np.exp(-np.arange(steps) / 25.0)
    signals["loss"] = (fall * (1.0 + 0.01 * random.standard_normal(steps))).astype(np.float32)
    # Heads differ, and early positions are harder than late ones, as in a healthy run.
    signals["head_entropy"] *= np.linspace(0.5, 1.5, WIDTH[Axis.HEADS], dtype=np.float32)
    signals["position_loss"] *= np.linspace(1.2, 0.9, WIDTH[Axis.POSITIONS], dtype=np.float32)
    signals["validation_loss"] = np.full(steps, np.nan, np.float32)
    evaluated = np.arange(steps) % 20 == 19
    signals["validation_loss"][evaluated] = fall[evaluated]
    for name, values in changed.items():
        signals[name] = np.asarray(values, dtype=np.float32)
    if "row_loss_max" not in changed:
        signals["row_loss_max"] = 1.3 * signals["loss"]  # no batch loses more than its worst row
    # A log that is right agrees with itself: the norm is that of all layers, the loss the mean of its positions.
    if "grad_norm" not in changed:
        signals["grad_norm"] = np.linalg.norm(signals["layer_grad_norm"], axis=1).astype(np.float32)
    elif "layer_grad_norm" not in changed:
        signals["layer_grad_norm"] = np.repeat(signals["grad_norm"][:, None] / 2.0, 4, axis=1)
    if "position_loss" not in changed:
        signals["position_loss"] *= (signals["loss"] / signals["position_loss"].mean(1))[:, None]
    return Trace(run_id, signals, evaluated)


def _run(run_id: str, **changed: Any) -> dict[str, Any]:
    facts: dict[str, Any] = dict.fromkeys(name for name, _, _ in RUN_FIELDS)
    facts |= {
        "run_id": run_id, "scenario": "", "cause": "", "family": "", "kind": "healthy", "split": "test",
        "severity": "", "seed": 0, "size": "micro", "base": "base",
        "last_step": STEPS - 1, "visible_steps": "{}", "outcome": "recovered", "final_loss": 2.0,
        "final_gap": 0.0, "twin_id": "", "context": json.dumps({"lr": 0.01}), "spec": "{}",
        "file": "telemetry/a.parquet",
    }  # fmt: skip
    facts |= changed
    if facts["kind"] in FAILURES and "cause" not in changed:
        facts["cause"] = facts["scenario"]
    if facts["planned_steps"] is None and facts["last_step"] is not None:
        facts["planned_steps"] = facts["last_step"] + 1
    return facts


FAULTS: dict[str, tuple[str, str, Callable[[np.ndarray, int], np.ndarray]]] = {
    "corrupt_tokens": ("data", "clear", lambda loss, s: np.where(np.arange(len(loss)) >= s, loss * 2.5, loss)),
    "high_lr": (
        "optimisation", "clear",
        lambda loss, s: loss * np.exp(np.maximum(0, np.arange(len(loss)) - s) / 40.0),
    ),
    "fp16_attention_overflow": (
        "numerics", "severe", lambda loss, s: np.where(np.arange(len(loss)) >= s + 3, math.nan, loss),
    ),
}  # fmt: skip


def _runs_and_traces() -> tuple[list[dict[str, Any]], list[Trace]]:
    runs, traces = [], []

    def add(trace: Trace, **facts: Any) -> None:
        runs.append(_run(trace.run_id, **facts))
        traces.append(trace)

    for seed in range(100, 124):
        add(_trace(f"calibration-{seed}", seed=seed), seed=seed, split="calibration")
    for seed in range(12):
        twin = _trace(f"healthy-{seed}", seed=seed)
        add(twin, seed=seed)
        onset = 20 + (7 * seed) % 50
        for cause, (family, severity, curve) in FAULTS.items():
            label = {"scenario": cause, "cause": cause, "family": family, "severity": severity, "twin_id": twin.run_id}
            faulty = _trace(f"{cause}-{seed}", seed=seed, loss=curve(twin["loss"].astype(np.float64), onset))
            add(
                faulty, **label, kind="failing", seed=seed, onset_step=onset, visible_step=onset + 3,
                no_return_step=None if cause == "fp16_attention_overflow" else onset + 40, outcome="damaged",
            )  # fmt: skip
        if seed < 6:
            spiked = np.array(twin["loss"])
            spiked[onset] *= 2.5
            add(
                _trace(f"spike-{seed}", seed=seed, loss=spiked), scenario="benign_single_spike", family="look-alike",
                kind="look-alike", seed=seed, twin_id=twin.run_id,
            )  # fmt: skip
        if seed < 3:
            label = {"scenario": "high_lr", "cause": "high_lr", "family": "optimisation", "twin_id": twin.run_id}
            add(_trace(f"latent-{seed}", seed=seed), **label, kind="latent", seed=seed, onset_step=onset)
            add(
                _trace(f"cured-{seed}", seed=seed), **label, kind="cured", seed=seed, onset_step=onset,
                cure_step=onset + 5, visible_step=onset + 3,
            )  # fmt: skip
    add(
        _trace("unseen", seed=3), scenario="high_lr", cause="high_lr", family="optimisation", severity="subtle",
        kind="failing", seed=3, onset_step=30, twin_id="healthy-3",
    )  # fmt: skip
    return runs, traces


def _small(root: Path, *, plan: str = "small", scenarios: tuple[str, ...] = ("high_lr", "corrupt_tokens")) -> DataSet:
    """As `generate` leaves it: 4 calibration runs, 3 twin sets of every scenario and its cure, a look-alike."""
    runs, traces, steps = [], [], 40
    context = json.dumps({"data": {"source": "language"}, "lr": 0.01})

    def add(trace: Trace, **facts: Any) -> None:
        runs.append(_run(trace.run_id, context=context, last_step=steps - 1, **facts))
        traces.append(trace)

    for seed in range(100, 104):
        add(_trace(f"calibration-{seed}", seed=seed, steps=steps), seed=seed, split="calibration")
    for seed in range(3):
        twin = _trace(f"healthy-{seed}", seed=seed, steps=steps)
        add(twin, seed=seed)
        late = np.arange(steps) >= 15
        for i, scenario in enumerate(scenarios):
            label = {"scenario": scenario, "cause": scenario, "family": "data", "severity": "clear", "seed": seed}
            label |= {"twin_id": twin.run_id, "onset_step": 15, "visible_step": 17}
            add(
                _trace(f"run-{i}-{seed}", seed=seed, steps=steps, loss=np.where(late, 9.0 + i, twin["loss"])),
                **label, kind="failing", outcome="damaged", final_gap=1.25,
                visible_steps='{"loss": 17, "grad_norm": 19}',
            )  # fmt: skip
            add(_trace(f"cured-{i}-{seed}", seed=seed, steps=steps), **label, kind="cured", cure_step=20)
    add(
        _trace("spike", seed=2, steps=steps), scenario="benign_single_spike", family="look-alike", kind="look-alike",
        seed=2, twin_id="healthy-2",
    )  # fmt: skip
    write_telemetry(root, "telemetry/a.parquet", traces)
    write_runs(root, runs)
    sections = {"Failure": "It fails.", "Cure": "Mend."}
    page = {"title": "A title", "family": "data", "telling": "loss", "sections": sections}
    write_json(root / "catalogue.json", dict.fromkeys((*scenarios, "benign_single_spike"), page))
    packages = {"torch": "2.7"}
    environment = {"trainwreck": "0.1.0", "revision": None, "packages": packages, "processor": "a CPU"}
    write_manifest(root, {"plan": plan, "environment": environment})
    return load(root)


class Remembered(DataSet):
    """A data set that reads each trace from disk once; many tests read all of them."""

    traces_read: dict[str, Trace]

    def trace(self, run_id: str) -> Trace:
        if run_id not in self.traces_read:
            self.traces_read[run_id] = super().trace(run_id)
        return self.traces_read[run_id]


def _write(root: Path, runs: list[dict[str, Any]], traces: list[Trace]) -> DataSet:
    write_telemetry(root, "telemetry/a.parquet", traces)
    write_runs(root, runs)
    write_manifest(root, {})
    data = load(root)
    remembered = Remembered(data.path, data.manifest, data.runs)
    remembered.traces_read = {}
    return remembered


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., Trace]:
    return _trace


@pytest.fixture(scope="session")
def make_run() -> Callable[..., dict[str, Any]]:
    return _run


@pytest.fixture(scope="session")
def write_data_set() -> Callable[[Path, list[dict[str, Any]], list[Trace]], DataSet]:
    return _write


@pytest.fixture(scope="session")
def write_small_data_set() -> Callable[..., DataSet]:
    return _small


@pytest.fixture(scope="session")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """24 calibration runs; 12 twin sets of a healthy and three failing runs; look-alike, latent, cured."""
    return _write(tmp_path_factory.mktemp("data"), *_runs_and_traces())
