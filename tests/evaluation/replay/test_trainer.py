"""The profile `trainer`: rows and first visible steps depend on the run's objective."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.dataset import DataSet, load, write_manifest, write_runs
from trainwreck.evaluation.dataset.schema import SIGNALS, Role
from trainwreck.evaluation.dataset.trace import LISTS, SCALARS, Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.learning.arrays import arrays
from trainwreck.evaluation.replay.oracles import oracle_alarms
from trainwreck.evaluation.replay.profiles import TRAINER, observe, shown_steps, visible_step
from trainwreck.evaluation.replay.rows import rows
from trainwreck.evaluation.replay.sandbox.columns import Unpacking, batches
from trainwreck.evaluation.replay.trainer import LOGGED_BY_TRAINER, every_signal, signals_of
from trainwreck.evaluation.scoring.run_labels import overflows, run_labels

# By hand, from what the trainers log; see the docstring of `evaluation/replay/trainer.py`.
SHOWN = {
    "": {"loss", "validation_loss", "grad_norm", "lr"},
    "next_token": {"loss", "validation_loss", "grad_norm", "lr"},
    "retrieval": {"loss", "validation_loss", "grad_norm", "lr"},
    "transcription": {"loss", "validation_loss", "grad_norm", "lr"},
    "modalities": {"loss", "validation_loss", "grad_norm", "lr"},
    "decoding": {"loss", "grad_norm", "lr", "forced_loss"},
    "preferences": {
        "loss", "grad_norm", "lr", "margin", "chosen_logp", "rejected_logp", "preference_accuracy", "validation_loss",
        "validation_rejected_loss",
    },
    "policy": {
        "loss", "grad_norm", "lr", "reward", "kl", "policy_entropy", "clip_share", "answer_length",
        "groups_without_variance", "value_loss",
    },
    "diffusion": {"loss", "lr"},
}  # fmt: skip


def stream(length: int, **changed: Any) -> list[dict[str, Any]]:
    """Rows in which every scalar is known, and tells its step."""
    values = {name: float(place) for place, name in enumerate(SCALARS)} | {name: [1.0] for name in LISTS} | changed
    return [{"step": step} | {n: v if v is None or n in LISTS else v + step for n, v in values.items()}
            for step in range(length)]  # fmt: skip


@pytest.mark.parametrize("objective", SHOWN)
def test_the_rows_have_what_the_trainer_of_the_objective_logs(objective: str) -> None:
    full = stream(7)
    seen = list(observe(full, TRAINER, k=3, objective=objective))
    assert [row["step"] for row in seen] == list(shown_steps(TRAINER, 6, 3)) == list(range(7))
    for row, whole in zip(seen, full, strict=True):
        assert set(row) == set(whole)
        assert {name for name, value in row.items() if value is not None} == {"step", *SHOWN[objective]}
        assert all(row[name] == whole[name] for name in SHOWN[objective])


def test_of_next_tokens_the_rows_are_those_of_common() -> None:
    full = stream(5)
    for objective in ("", "next_token"):
        assert list(observe(full, TRAINER, objective=objective)) == list(observe(full, "common"))


def test_what_a_run_does_not_have_is_missing_and_not_zero() -> None:
    """Rewards that begin later: a row before has none of their signals."""
    absent = dict.fromkeys(SHOWN["policy"] - {"loss", "grad_norm", "lr"})
    [row] = observe(stream(1, **absent), TRAINER, objective="policy")
    assert {name for name, value in row.items() if value is not None} == {"step", "loss", "grad_norm", "lr"}


def test_nothing_shown_is_what_only_the_lab_knows() -> None:
    by_name = {signal.name: signal for signal in SIGNALS}
    for names in LOGGED_BY_TRAINER.values():
        assert len(set(names)) == len(names)
        assert {by_name[name].role for name in names} <= {Role.OUTCOME, Role.SETTING}
    assert not every_signal() & {"true_reward", "sampler_log_ratio", "dpo_loss"}
    assert "validation_loss" not in signals_of("policy"), "it is of the true reward"


@given(cut=st.integers(0, 30), objective=st.sampled_from(sorted(SHOWN)))
def test_a_prefix_is_seen_the_same_whatever_follows(cut: int, objective: str) -> None:
    seen = [repr(row) for row in observe(stream(30), TRAINER, objective=objective)][:cut]
    assert seen == [repr(row) for row in observe(stream(cut), TRAINER, objective=objective)]


def declare(root: Path, objectives: dict[str, str]) -> DataSet:
    """Have runs of a data set declare an objective."""
    manifest = load(root).manifest
    table = pq.read_table(root / "runs.parquet").to_pylist()
    for row in table:
        if row["run_id"] in objectives:
            row["context"] = json.dumps(json.loads(row["context"]) | {"objective": objectives[row["run_id"]]})
    write_runs(root, table)
    write_manifest(root, {key: value for key, value in manifest.items() if key not in ("files", "format")})
    return load(root)


def test_a_data_sets_run_is_shown_by_what_it_declares(
    write_small_data_set: Callable[..., DataSet], tmp_path: Path
) -> None:
    ids = write_small_data_set(tmp_path).runs.query("split == 'test'").index[:3].tolist()
    objectives = dict(zip(ids, ("", "diffusion", "policy"), strict=True))
    found = declare(tmp_path, {run_id: objective for run_id, objective in objectives.items() if objective})
    table = arrays(found, "test", profile=TRAINER, kinds=sorted(set(found.runs["kind"])))
    for run_id, objective in objectives.items():
        trace = found.trace(run_id)
        assert trace.objective == objective
        full = list(observe(rows(trace), "full"))
        wanted = [[row[name] if name in SHOWN[objective] else None for name in table.columns] for row in full]
        mine = table.runs["run_id"].to_numpy()[table.run] == run_id
        assert mine.sum() == len(full)
        np.testing.assert_array_equal(table.X[mine], np.array(wanted, np.float32))


@pytest.mark.parametrize("objective", sorted(SHOWN))
def test_a_process_of_its_own_gets_the_same_rows(objective: str, make_trace: Callable[..., Trace]) -> None:
    trace = make_trace("r")
    trace.objective = objective
    unpacking = Unpacking()
    found = [row for _, line in batches(trace, TRAINER, 10, 7) for row in unpacking.rows(line) or ()]
    assert found == list(observe(rows(trace), TRAINER, objective=objective))


def label(objective: str, steps: dict[str, int], visible: int | None = 3) -> dict[str, Any]:
    context = json.dumps({"objective": objective} if objective else {"lr": 0.01})
    return {"visible_step": visible, "visible_steps": json.dumps(steps), "visible_profiles": "{}", "context": context}


@pytest.mark.parametrize(
    ("objective", "first"),
    [("", 20), ("next_token", 20), ("diffusion", 40), ("policy", 12), ("preferences", 20), ("decoding", 25)],
)
def test_it_shows_a_failure_when_a_signal_of_it_does(objective: str, first: int) -> None:
    steps = {"true_reward": 3, "loss": 40, "validation_loss": 20, "kl": 12, "grad_norm": 25, "log_z": 4}
    run = label(objective, steps)
    assert visible_step(run, TRAINER) == first
    assert visible_step(label(objective, {"log_z": 4}), TRAINER) is None
    assert visible_step(label(objective, {}), TRAINER) == 3  # a table without steps by signal
    assert visible_step(label(objective, {}, None), TRAINER) is None


def test_on_the_sample_all_is_as_under_common() -> None:
    """Its runs are on next tokens: the same labels, oracles and scores."""
    data = load("sample")
    for _, run in data.runs.iterrows():
        assert visible_step(run, TRAINER) == visible_step(run, "common")
        for name in ("oracle_at_v", "oracle_delayed"):
            assert oracle_alarms(name, run, TRAINER).first_alarm == oracle_alarms(name, run, "common").first_alarm
    np.testing.assert_array_equal(run_labels(data.runs, TRAINER).visible, run_labels(data.runs, "common").visible)
    cards = {profile: score("loss_over_minimum", data, profile=profile).to_dict() for profile in ("common", TRAINER)}
    for card in cards.values():
        card.pop("cost")
        card.pop("profile")
        card["alarms"] = [(one["run_id"], one["first_alarm"]) for one in card["alarms"]]
    assert cards["common"] == cards[TRAINER]


def test_a_run_with_a_dynamic_loss_scale_sets_no_threshold() -> None:
    """As under `common`: the scale is not shown, and the gradient norm is."""
    runs = pd.DataFrame({"context": [json.dumps({"precision": {"dynamic": dynamic}}) for dynamic in (True, False)]})
    assert overflows(runs, TRAINER).tolist() == overflows(runs, "common").tolist() == [True, False]


def test_a_profile_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"^profile: 'dpo' is not allowed; allowed: full, .*, logged, trainer$"):
        observe([], "dpo")
    with pytest.raises(InputError, match="did you mean 'trainer'"):
        observe([], "trainr")
    assert set(COMMON_SIGNALS) == SHOWN[""]
