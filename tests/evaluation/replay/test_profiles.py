"""What each profile shows, and that it shows nothing early."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.profiles import LISTS, PROFILES, SCALARS, observe
from trainwreck.evaluation.replay.replay import rows


def full(losses: list[float], **more: Any) -> list[dict[str, Any]]:
    return [
        dict.fromkeys([*SCALARS, *LISTS]) | {"step": i, "loss": loss, "lr": 0.1, "grad_norm": 1.0 + i} | more
        for i, loss in enumerate(losses)
    ]


def test_full_is_everything() -> None:
    stream = full([3.0, 2.0], layer_grad_norm=[1.0, 2.0])
    assert list(observe(stream, "full")) == stream


def test_common_is_what_most_logs_have_at_every_row() -> None:
    stream = full([3.0, 2.0, 1.0], layer_grad_norm=[1.0], token_entropy=2.0)
    stream[1]["validation_loss"] = 1.5
    seen = list(observe(stream, "common", k=2))
    names = ("step", "loss", "validation_loss", "grad_norm", "lr")
    assert seen == [dict.fromkeys(row) | {name: row[name] for name in names} for row in stream]


def test_standard_thins_scalars_and_lists() -> None:
    stream = full([2.0] * 41, layer_grad_norm=[1.0, 2.0])
    seen = list(observe(stream, "standard", k=2))
    assert [row["step"] for row in seen] == list(range(0, 41, 2))
    assert [row["step"] for row in seen if row["layer_grad_norm"] is not None] == [0, 20, 40]
    assert seen[3]["grad_norm"] == 7.0


def test_standard_keeps_an_evaluation_between_two_rows() -> None:
    stream = full([2.0] * 8)
    stream[3]["validation_loss"] = 1.5
    assert [row["validation_loss"] for row in observe(stream, "standard", k=5)] == [None, 1.5]
    assert [row["validation_loss"] for row in observe(stream, "standard", k=3)] == [None, 1.5, None]


def test_minimal_is_loss_and_lr() -> None:
    seen = list(observe(full([2.0] * 11), "minimal"))
    assert [row["step"] for row in seen] == [0, 10]
    assert {name for name, value in seen[1].items() if value is not None} == {"step", "loss", "lr"}
    assert set(seen[1]) == {"step", *SCALARS, *LISTS}


def test_filtered_averages() -> None:
    seen = list(observe(full([1.0, 2.0, 3.0, 6.0, 9.0], layer_grad_norm=[1.0]), "filtered", k=2))
    assert [(row["step"], row["loss"], row["grad_norm"]) for row in seen] == [(1, 1.5, 1.5), (3, 4.5, 3.5)]
    assert all(row["layer_grad_norm"] is None for row in seen)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_filtered_hides_a_loss_that_is_not_finite(bad: float) -> None:
    # Worked by hand: 2 + 4 = 6, then 6 / (1 + 2) = 2 in place of the third: 8 / 3.
    [row] = observe(full([2.0, 4.0, bad]), "filtered", k=3)
    assert row["loss"] == pytest.approx(8 / 3, abs=1e-12)
    # 3, then 3 / 2 for the second and 4.5 / 3 for the third; a window of nothing else is logged as 0.
    first, second = observe(full([3.0, bad, bad, bad, bad, bad]), "filtered", k=3)
    assert first["loss"] == pytest.approx(6 / 3, abs=1e-12)
    assert second["loss"] == 0.0
    assert [row["loss"] for row in observe(full([bad, bad, 6.0]), "filtered", k=3)] == [2.0]


def test_filtered_does_not_hide_other_signals() -> None:
    stream = full([2.0, 2.0])
    stream[1]["grad_norm"] = math.nan
    [row] = observe(stream, "filtered", k=2)
    assert math.isnan(row["grad_norm"])


@pytest.mark.parametrize("profile", PROFILES)
@given(cut=st.integers(0, 59), k=st.integers(1, 12), future=st.floats(allow_nan=True), nan_from=st.integers(0, 60))
def test_a_prefix_is_seen_the_same_whatever_follows(
    profile: str, cut: int, k: int, future: float, nan_from: int
) -> None:
    losses = [4.0 - 0.05 * i if i < nan_from else math.nan for i in range(60)]
    other = losses[:cut] + [future] * (60 - cut)
    seen = [repr(row) for row in observe(full(losses), profile, k=k) if row["step"] < cut]
    assert seen == [repr(row) for row in observe(full(losses[:cut]), profile, k=k)]
    assert seen == [repr(row) for row in observe(full(other), profile, k=k) if row["step"] < cut]


def test_what_a_profile_shows_is_part_of_what_a_richer_one_shows(make_trace: Any) -> None:
    standard = list(observe(rows(make_trace("r")), "standard"))
    for minimal, richer in zip(observe(rows(make_trace("r")), "minimal"), standard, strict=True):
        assert all(value is None or value == richer[name] for name, value in minimal.items())


@pytest.mark.parametrize(
    ("profile", "k", "complaint"),
    [("ful", 10, "did you mean 'full'"), ("full", 0, "k: 0 is not allowed; allowed: 1 and more")],
)
def test_bad_input(profile: str, k: int, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        observe([], profile, k=k)
