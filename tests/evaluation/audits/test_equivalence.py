"""Sets of what can't be told apart, on telemetry of which it is known."""

import json
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.audits.confusable.equivalence import FOLDS, Role, corpus, equivalence
from trainwreck.evaluation.audits.confusable.record import page, record
from trainwreck.evaluation.audits.confusable.separation import chance
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.scoring import equivalence_sets

ROOT = Path(__file__).resolve().parents[3]
STEPS, PROFILES = 60, ("full", "minimal")
SEEDS = range(FOLDS)
# Two bases that have nothing in common but the kind of their noise.
LEVEL = {"deep": (1.0, 0.01), "wide": (3.0, 0.002)}


def curves(base: str, seed: int) -> dict[str, np.ndarray]:
    level, lr = LEVEL[base]
    random = np.random.default_rng([seed, round(1e3 * level)])
    return {
        "loss": level * np.exp(0.02 * random.standard_normal() + 0.01 * random.standard_normal(STEPS)),
        "grad_norm": level * np.exp(0.2 * random.standard_normal(STEPS)),
        "lr": np.full(STEPS, lr),
    }


def loss_up(healthy: dict[str, np.ndarray], late: np.ndarray) -> dict[str, np.ndarray]:
    return healthy | {"loss": np.where(late, 1.5 * healthy["loss"], healthy["loss"])}


def norm_up(healthy: dict[str, np.ndarray], late: np.ndarray) -> dict[str, np.ndarray]:
    return healthy | {"grad_norm": np.where(late, 20 * healthy["grad_norm"], healthy["grad_norm"])}


def nothing(healthy: dict[str, np.ndarray], late: np.ndarray) -> dict[str, np.ndarray]:
    return healthy


Fault = Callable[[dict[str, np.ndarray], np.ndarray], dict[str, np.ndarray]]
FAULTS: dict[str, tuple[str, Fault]] = {
    "loss_up_on_deep": ("deep", loss_up),
    "loss_up_on_wide": ("wide", loss_up),  # the same process on another base
    "norm_up": ("deep", norm_up),
    "nothing_on_deep": ("deep", nothing),
    "nothing_on_wide": ("wide", nothing),
}


@pytest.fixture(scope="module")
def add(make_trace: Any, make_run: Any) -> Callable[..., tuple[dict[str, Any], Any]]:
    def one(run_id: str, base: str, seed: int, changed: dict[str, np.ndarray], **facts: Any) -> tuple[Any, Any]:
        noise = zlib.crc32(f"{base}-{seed}".encode())  # as the twin, also in the signals that are not set
        trace = make_trace(run_id, seed=noise, steps=STEPS, **changed)
        return make_run(run_id, base=base, seed=seed, last_step=STEPS - 1, **facts), trace

    return one


@pytest.fixture(scope="module")
def by_hand(add: Any, write_data_set: Any, tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    made = [add(f"{base}-{seed}", base, seed, curves(base, seed)) for base in LEVEL for seed in range(2 * FOLDS)]
    for cause, (base, fault) in FAULTS.items():
        for seed in SEEDS:
            onset = 0 if cause == "nothing_on_wide" else 12 + seed
            changed = fault(curves(base, seed), np.arange(STEPS) >= onset)
            label = {"scenario": cause, "cause": cause, "kind": "failing", "onset_step": onset, "visible_step": onset}
            made.append(add(f"{cause}-{seed}", base, seed, changed, **label))
    runs, traces = zip(*made, strict=True)
    data: DataSet = write_data_set(tmp_path_factory.mktemp("by_hand"), list(runs), list(traces))
    return data


@pytest.fixture(scope="module")
def found(by_hand: DataSet) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as quick:
        quick.setattr("trainwreck.evaluation.audits.confusable.equivalence.chance", partial(chance, draws=200))
        return equivalence([by_hand], PROFILES)


def together(facts: dict[str, Any], *causes: str) -> bool:
    return any(set(causes) <= set(one) for one in facts["sets"])


def test_the_same_process_on_two_bases_is_one_set(found: dict[str, Any]) -> None:
    assert found["causes"] == sorted(FAULTS)
    for profile in PROFILES:
        assert together(found["profiles"][profile], "loss_up_on_deep", "loss_up_on_wide")


def test_two_processes_are_apart_where_the_profile_shows_it(found: dict[str, Any]) -> None:
    full, minimal = (found["profiles"][profile] for profile in PROFILES)
    assert not together(full, "loss_up_on_deep", "norm_up")
    assert not together(full, "nothing_on_deep", "norm_up")
    # A gradient norm is not among what the minimal profile hands out.
    assert together(minimal, "nothing_on_deep", "norm_up")
    assert full["separated"] == 8
    assert len(full["not_separated"]) == full["pairs"] - full["separated"] == 2


def test_what_does_nothing_is_not_detected(found: dict[str, Any]) -> None:
    full, minimal = (found["profiles"][profile] for profile in PROFILES)
    assert full["undetectable"] == ["nothing_on_deep", "nothing_on_wide"]
    assert minimal["undetectable"] == ["norm_up", "nothing_on_deep", "nothing_on_wide"]
    assert full["detection"]["norm_up"]["won"] == 1.0


def test_a_base_alone_tells_nothing(found: dict[str, Any]) -> None:
    for profile in PROFILES:
        facts = found["profiles"][profile]
        assert together(facts, "nothing_on_deep", "nothing_on_wide")
        assert facts["control"] == {
            "pairs": 1,
            "share": 0.0,
            "strangers": 1,
            "strangers_t": facts["control"]["strangers_t"],
        }


def test_data_sets_are_taken_as_one(by_hand: DataSet, found: dict[str, Any]) -> None:
    halves = [
        DataSet(by_hand.path, by_hand.manifest, by_hand.runs[by_hand.runs["base"] == base].iloc[::-1]) for base in LEVEL
    ]
    both = corpus([*halves, halves[0]], ["minimal"])
    assert both.runs == found["runs"] == len(by_hand)
    alone = corpus([by_hand], ["minimal"])
    assert [
        s.features["minimal"].values.tolist() for s in both.samples if s.cause == "norm_up" and s.role is Role.FAILING
    ] == [
        s.features["minimal"].values.tolist()
        for s in reversed(alone.samples)
        if s.cause == "norm_up" and s.role is Role.FAILING
    ]


def test_too_few_seeds_are_said_and_not_judged(by_hand: DataSet) -> None:
    lacking = by_hand.runs.drop(["norm_up-3"])
    found = corpus([DataSet(by_hand.path, {}, lacking)], ["minimal"])
    assert "norm_up" not in found.causes
    assert found.left_out == {"norm_up": "failing runs of 7 seeds; 8 are needed"}
    alone = by_hand.runs[by_hand.runs["kind"] == "failing"]
    with pytest.raises(InputError, match="8 healthy runs"):
        corpus([DataSet(by_hand.path, {}, alone)], ["minimal"])
    with pytest.raises(InputError, match="did you mean 'minimal'"):
        equivalence([by_hand], ["minimall"])


def test_scores_go_by_what_is_recorded(found: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "evaluation" / "scoring" / equivalence_sets.RECORD
    monkeypatch.setattr(equivalence_sets, "path", lambda: file)
    try:
        record(found, "a command", {})
        assert equivalence_sets.shipped("full")["loss_up_on_deep"] == {"loss_up_on_wide"}
        assert "norm_up" not in equivalence_sets.shipped("full")
        assert equivalence_sets.shipped("standard") == {}
    finally:
        equivalence_sets.measured.cache_clear()
    assert (tmp_path / "results" / "equivalence" / "README.md").exists()


def test_what_ships_is_what_is_recorded() -> None:
    kept = json.loads(equivalence_sets.path().read_text(encoding="utf-8"))
    whole = json.loads((ROOT / "results" / "equivalence" / "result.json").read_text(encoding="utf-8"))
    assert kept["causes"] == whole["causes"]
    for profile, facts in whole["profiles"].items():
        assert kept["profiles"][profile] == {name: facts[name] for name in ("sets", "undetectable")}
        assert set(equivalence_sets.shipped(profile)) == {cause for one in facts["sets"] for cause in one}
    assert (ROOT / "results" / "equivalence" / "README.md").read_text(encoding="utf-8") == page(whole, whole["command"])


def test_the_record_is_the_result(found: dict[str, Any], tmp_path: Path) -> None:
    folder = record(found, "a command", {"python": "3"}, tmp_path)
    kept = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps({"command": "a command", **found}))
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert text == page(found, "a command")
    assert "- `loss_up_on_deep`, `loss_up_on_wide`" in text
    assert "Not detected: `nothing_on_deep`, `nothing_on_wide`." in text
