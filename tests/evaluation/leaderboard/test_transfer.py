"""The order of detectors on two boards: correlations by hand, intervals, ceilings, and what is refused."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.transfer.boards import write_detections, write_peaks, write_thresholds
from trainwreck.evaluation.leaderboard.transfer.transfer import (
    Transfer,
    kendall,
    spearman,
    stepped_up,
    transfer,
)

NAMES = ("a", "b", "c", "d")


def board(
    folder: Path, found: np.ndarray, clusters: Sequence[str], *, profile: str = "common", runs: bool = True
) -> Path:
    """A board of detections [D, N] of runs in clusters, which count the same."""
    weight = [1.0 / clusters.count(one) for one in clusters]
    recall = found @ np.array(weight) / sum(weight)
    folder.mkdir()
    table = pd.DataFrame({"profile": profile, "detector": NAMES[: len(found)], "recall_0.05": recall})
    table["recall_lenient_0.05"] = recall[::-1]
    table.to_csv(folder / "leaderboard.csv", index=False)
    if runs:
        run_ids = [f"run-{i}" for i in range(len(clusters))]
        write_detections(
            folder,
            [
                {
                    "profile": profile, "detector": name, "run_id": run_ids, "cluster": list(clusters),
                    "weight": weight, "found_0.05": row.tolist(),
                }
                for name, row in zip(NAMES, found, strict=False)
            ],
        )  # fmt: skip
    return folder


def of_recalls(folder: Path, *recalls: float, **settings: bool) -> Path:
    return board(folder, np.array(recalls)[:, None] * np.ones(10), [f"cluster {i}" for i in range(10)], **settings)


def test_correlations_by_hand(tmp_path: Path) -> None:
    # Ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4; five pairs agree, one is tied on the first board.
    found = transfer(of_recalls(tmp_path / "x", 0.1, 0.2, 0.2, 0.4), of_recalls(tmp_path / "y", 0.1, 0.3, 0.2, 0.9))
    assert found.spearman.value == pytest.approx(4.5 / math.sqrt(4.5 * 5), abs=1e-12)
    assert found.kendall.value == pytest.approx(5 / math.sqrt(5 * 6), abs=1e-12)
    assert (found.detectors, found.real, found.board) == (
        ("d", "b", "c", "a"), (0.9, 0.3, 0.2, 0.1), (0.4, 0.2, 0.2, 0.1)
    )  # fmt: skip
    assert found.to_frame()["board_rank"].tolist() == [1.0, 2.5, 2.5, 4.0]
    assert found.to_dict()["kendall"]["value"] == found.kendall.value
    assert "board_rank" in repr(found)
    # All clusters say the same, so no resample and no half differs from the whole.
    assert (found.spearman.low, found.spearman.high) == pytest.approx((found.spearman.value, found.spearman.value))
    assert found.ceiling == {one: {"spearman": 1.0, "kendall": 1.0} for one in ("board", "real")}


@pytest.mark.parametrize("correlation", [spearman, kendall])
def test_correlations_are_scipys(correlation) -> None:
    from scipy import stats

    random = np.random.default_rng(0)
    theirs = {spearman: stats.spearmanr, kendall: stats.kendalltau}[correlation]
    for _ in range(20):
        one, other = random.integers(0, 6, (2, 12)) / 7.0
        assert correlation(one, other) == pytest.approx(theirs(one, other).statistic, abs=1e-12)
    assert math.isnan(correlation(np.ones(4), np.arange(4.0)))
    assert correlation(np.array([0.1 + 0.2, 0.3, 0.5]), np.array([1.0, 1.0, 2.0])) == pytest.approx(1.0)  # a tie


def test_the_ceiling_of_halves_is_stepped_up() -> None:
    assert stepped_up(np.array([0.4, 0.6])) == pytest.approx(2 / 3, abs=1e-12)
    assert stepped_up(np.array([1.0, math.nan])) == 1.0
    assert math.isnan(stepped_up(np.array([math.nan])))


def noisy(folder: Path, clusters: int, seed: int, quality: np.ndarray) -> Path:
    """Each cluster has an opinion of its own beside the quality of a detector."""
    random = np.random.default_rng(seed)
    found = np.clip(quality[:, None] + random.normal(0, 0.25, (len(quality), clusters)), 0, 1)
    return board(folder, found, [f"cluster {i:03d}" for i in range(clusters)])


def test_more_clusters_give_a_narrower_interval_and_a_higher_ceiling(tmp_path: Path) -> None:
    quality = np.array([0.3, 0.4, 0.5, 0.6])
    sure = noisy(tmp_path / "synthetic", 400, 0, quality)
    few, many = (transfer(sure, noisy(tmp_path / f"{n}", n, 1, quality)) for n in (10, 120))
    assert _width(many) < _width(few)
    assert few.ceiling["real"]["spearman"] < many.ceiling["real"]["spearman"] <= 1.0
    assert few.ceiling["board"] == many.ceiling["board"]
    for one in (few, many):
        assert -1.0 <= one.spearman.low <= one.spearman.value <= one.spearman.high <= 1.0


def _width(found: Transfer) -> float:
    return found.spearman.high - found.spearman.low


def test_whole_clusters_are_resampled(tmp_path: Path) -> None:
    """Ten copies of each run in its cluster tell no more than one."""
    random = np.random.default_rng(2)
    found = random.uniform(size=(4, 8))
    names = [f"cluster {i}" for i in range(8)]
    sure = of_recalls(tmp_path / "sure", 0.1, 0.2, 0.3, 0.4)
    once = transfer(sure, board(tmp_path / "once", found, names))
    ten = transfer(sure, board(tmp_path / "ten", np.repeat(found, 10, axis=1), [n for n in names for _ in range(10)]))
    assert once.spearman == pytest.approx(ten.spearman, abs=1e-9)
    assert once.ceiling["real"] == pytest.approx(ten.ceiling["real"], abs=1e-9)


def test_a_table_alone_has_a_value_and_no_interval(tmp_path: Path) -> None:
    one, other = of_recalls(tmp_path / "x", 0.1, 0.2, 0.3), of_recalls(tmp_path / "y", 0.1, 0.3, 0.2)
    pd.read_csv(one / "leaderboard.csv").to_parquet(one / "mine.parquet")
    found = transfer(one / "mine.parquet", other / "leaderboard.csv")
    assert found.spearman.value == pytest.approx(0.5)
    assert math.isnan(found.spearman.low)
    assert math.isnan(found.ceiling["real"]["kendall"])
    assert [note.split(" has no ")[0] for note in found.notes] == [
        str(one / "mine.parquet"), str(other / "leaderboard.csv")
    ]  # fmt: skip
    half = transfer(one / "leaderboard.csv", other)
    assert (half.spearman.low, half.ceiling["real"]["spearman"]) == pytest.approx((0.5, 1.0))


def test_lenient_recall_is_of_the_judge_alone(tmp_path: Path) -> None:
    one = of_recalls(tmp_path / "x", 0.1, 0.2, 0.3)
    assert transfer(one / "leaderboard.csv", one / "leaderboard.csv", lenient=True).spearman.value == -1.0


def test_oracles_and_what_one_board_has_not_are_left_out(tmp_path: Path) -> None:
    one, other = of_recalls(tmp_path / "x", 0.1, 0.2, 0.3, 0.4), of_recalls(tmp_path / "y", 0.1, 0.2, 0.3, 0.4)
    for folder, old, new in ((one, ",d,", ",oracle_at_v,"), (other, ",d,", ",oracle_at_v,")):
        text = (folder / "leaderboard.csv").read_text().replace(old, new)
        (folder / "leaderboard.csv").write_text(text)
    assert set(transfer(one, other).detectors) == {"a", "b", "c"}
    (other / "leaderboard.csv").write_text((other / "leaderboard.csv").read_text().replace(",c,0.3", ",c,"))
    with pytest.raises(InputError, match=r"board: 2 detectors of .* are on .* too; allowed: 3 and more"):
        transfer(one, other)


def test_all_the_same_has_no_order(tmp_path: Path) -> None:
    found = transfer(of_recalls(tmp_path / "x", 0.2, 0.2, 0.2), of_recalls(tmp_path / "y", 0.1, 0.3, 0.2))
    assert math.isnan(found.spearman.value)
    assert "which has no order then" in found.notes[0]


def test_what_is_refused(tmp_path: Path) -> None:
    one, other = of_recalls(tmp_path / "x", 0.1, 0.2, 0.3), of_recalls(tmp_path / "y", 0.1, 0.3, 0.2)

    def refused(message: str, first: Path = one, second: Path = other, **settings: str) -> None:
        with pytest.raises(InputError) as error:
            transfer(first, second, **settings)  # type: ignore[arg-type]
        assert message in str(error.value)
        assert "\n" not in str(error.value)

    refused("at: 'none' is not allowed", at="none")
    refused("profile: 'minimal' is not allowed; allowed: common", profile="minimal")
    refused("nothing' is not there; allowed: a folder", first=tmp_path / "nothing")
    refused("has no leaderboard.parquet", second=tmp_path)
    refused("has no column 'recall_default'", at="default")
    (tmp_path / "page.html").write_text("<html>")
    refused("page.html' is no table", second=tmp_path / "page.html")
    (tmp_path / "broken.parquet").write_text("nothing")
    refused("broken.parquet: damaged", second=tmp_path / "broken.parquet")
    (tmp_path / "empty.csv").write_text("")
    refused("empty.csv: damaged", second=tmp_path / "empty.csv")
    text = (one / "leaderboard.csv").read_text()
    for name, old, new, message in (
        ("twice", ",b,", ",a,", "'a' a second time under common"),
        ("several", "common,b", "full,b", "profile: "),
        ("words", ",b,0.2", ",b,high", "recall_0.05 of 'b' is 'high'; allowed: a number"),
    ):
        (tmp_path / f"{name}.csv").write_text(text.replace(old, new))
        refused(message, first=tmp_path / f"{name}.csv")
    pd.read_parquet(one / "detections.parquet")[3:].to_parquet(one / "detections.parquet")
    refused("detections.parquet: runs of 'a' are missing; allowed: as it was written")


def card(detector: str, *levels: tuple[float, float], profile: str = "common") -> dict:
    threshold = [{"level": repr(level), "chance": chance} for level, chance in levels]
    return {
        "profile": profile, "detector": detector,
        "points": {point: {"recall": {"threshold": threshold}} for point in ("0.05", "0.01")},
    }  # fmt: skip


def peaks_of(detector: str, *peaks: float) -> dict:
    clusters = ["one", "one", "one", "two"]
    return {
        "profile": "log", "detector": detector, "run_id": list("wxyz"), "cluster": clusters, "peak": list(peaks)
    }  # fmt: skip


def test_what_thresholds_stop_by_hand(tmp_path: Path) -> None:
    one, other = of_recalls(tmp_path / "x", 0.1, 0.2, 0.3), of_recalls(tmp_path / "y", 0.3, 0.2, 0.1, profile="log")
    write_thresholds(
        one,
        [card("a", (1.0, 0.5), (math.inf, 0.5)), card("b", (2.0, 1.0)), card("c", (math.inf, math.nan)),
         card("a", (-1.0, 1.0), profile="full")],
    )  # fmt: skip
    write_peaks(other, [peaks_of("a", 1.0, 1.5, 3.0, 2.0), peaks_of("b", 2.0, 3.0, -math.inf, math.inf),
                        peaks_of("c", 9.0, 9.0, 9.0, 9.0)])  # fmt: skip
    found = transfer(one, other)
    # a: of the first cluster two of three runs, each with chance 1/2, and the second's run with 1/2. A peak at a
    # level is not above it. b: one of three, and the one. c has no threshold.
    by_name = dict(zip(found.detectors, found.stopped, strict=True))
    assert by_name["a"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert by_name["b"] == pytest.approx((1 / 3 + 1) / 2)
    assert math.isnan(by_name["c"])
    assert found.median_stopped.value == pytest.approx((by_name["a"] + by_name["b"]) / 2)
    assert found.median_stopped.low <= found.median_stopped.value <= found.median_stopped.high
    assert found.to_frame().set_index("detector")["stopped"]["b"] == by_name["b"]
    assert not any("thresholds" in note for note in found.notes)
    pd.read_parquet(other / "peaks.parquet")[:-5].to_parquet(other / "peaks.parquet")
    with pytest.raises(InputError, match=r"peaks\.parquet: runs of a detector are missing; allowed: as it was written"):
        transfer(one, other)


def test_without_thresholds_nothing_is_known_of_stops(tmp_path: Path) -> None:
    one, other = of_recalls(tmp_path / "x", 0.1, 0.2, 0.3), of_recalls(tmp_path / "y", 0.3, 0.2, 0.1)
    assert not any("stop" in note for note in transfer(one, other).notes)
    write_peaks(other, [peaks_of("a", 1.0, 1.5, 3.0, 2.0)])
    found = transfer(one, other)
    assert math.isnan(found.median_stopped.value)
    assert found.notes[-1] == f"{one} has no thresholds.parquet, so that nothing is known of what its thresholds stop"
