"""A release of logs has what most logs have: four signals, and labels as they are."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import leaderboard, score
from trainwreck.evaluation.release import release
from trainwreck.evaluation.release.build import LOG_PROFILES


@pytest.fixture(scope="module")
def logs(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("logs") / "rel"
    release(source, out, profiles=("common",), logs=True)
    return out


def test_it_has_the_signals_of_logs_and_no_others(source: Path, logs: Path) -> None:
    before, after = load(source), load(logs)
    pd.testing.assert_frame_equal(after.runs.drop(columns="file"), before.runs.drop(columns="file"))
    for run_id in before.runs.index:
        old, new = before.trace(run_id), after.trace(run_id)
        assert all(np.isnan(new[name]).all() for name in set(new.signals) - set(COMMON_SIGNALS))
        assert not {"tokens", "log_z", "layer_grad_norm"} & set(new.signals)
        np.testing.assert_array_equal(new.evaluated, old.evaluated)
        for name in COMMON_SIGNALS:
            np.testing.assert_array_equal(new[name].view(np.uint32), old[name].view(np.uint32))
    assert after.manifest["release"]["signals"] == list(COMMON_SIGNALS)


def test_it_is_a_part_of_the_bytes(released: Path, logs: Path) -> None:
    sizes = [sum(path.stat().st_size for path in (root / "telemetry").rglob("*.parquet")) for root in (released, logs)]
    assert sizes[1] < sizes[0] / 2


@pytest.mark.parametrize("profile", LOG_PROFILES)
def test_what_logs_show_is_scored_as_before(source: Path, logs: Path, profile: str) -> None:
    cards = [score("loss_over_minimum", load(root), profile=profile).to_dict() for root in (source, logs)]
    first, second = ({a["run_id"]: a["first_alarm"] for a in card["alarms"]} for card in cards)
    assert first == second
    assert any(step is not None for step in first.values())


def test_the_card_says_which_signals(released: Path, logs: Path) -> None:
    assert "every signal that a practitioner logs" in (released / "README.md").read_text("utf-8")
    card = (logs / "README.md").read_text("utf-8")
    assert "loss, validation loss, grad norm and lr of each, which most logs have" in card


@pytest.mark.parametrize("profile", ["full", "standard", "filtered", "trainer"])
def test_a_profile_that_shows_more_is_refused(source: Path, tmp_path: Path, profile: str) -> None:
    with pytest.raises(InputError) as error:
        release(source, tmp_path / "rel", profiles=(profile,), logs=True)
    assert str(error.value) == f"profile: '{profile}' is not allowed for logs; allowed: common, minimal, logged"
    assert not (tmp_path / "rel").exists()


def test_a_board_of_it_is_under_common_alone(source: Path, logs: Path) -> None:
    for root, profiles in ((source, ["full", "common"]), (logs, ["common"])):
        assert leaderboard(load(root), ["nonfinite_loss"]).to_frame()["profile"].tolist() == profiles
