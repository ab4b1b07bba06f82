"""The page of real runs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.published.zclip import ZClip
from trainwreck.evaluation.detectors.sanity.blind import Never
from trainwreck.evaluation.detectors.sanity.nonfinite_loss import NonfiniteLoss
from trainwreck.evaluation.logs.real_runs import page
from trainwreck.evaluation.logs.real_runs.page import blind_entries, write_page


def test_the_page_says_first_what_is_not_known(
    real: DataSet, labels: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {kind.name: kind for kind in (NonfiniteLoss, ZClip, Never)}
    monkeypatch.setattr(page, "builtin_detectors", lambda: kinds)
    ticks: list[tuple[int, int, str]] = []
    out = write_page(real, labels(), tmp_path / "page.html", tick=lambda *work: ticks.append(work))
    assert [done for done, _, _ in ticks] == list(range(1, 15))
    assert {total for _, total, _ in ticks} == {14}
    assert [note.startswith("picture of ") for _, _, note in ticks] == [False] * 7 + [True] * 7
    text = out.read_text(encoding="utf-8")
    banner = text.index("These are real runs.")
    assert banner < text.index("<table>")
    assert "3 failed, 3 healthy, and 1 unknown" in text
    assert "lead: needs the first visible step and the point of no return" in text
    assert text.count('<img src="data:image/png;base64,') == 7
    assert re.search(r"(src|href)=\"(?!data:|#)", text) is None  # nothing is fetched
    row = re.search(r">zclip</td>.*?</tr>", text, re.DOTALL)
    assert row
    assert row[0].count('<td class="number">-</td>') == 6  # a detector that sees nothing has dashes, not zeros
    assert "unknown, not scored" in text
    assert "strange.csv" in text[: text.index("<h2>Runs</h2>")]  # among the clusters


@pytest.mark.browser
def test_it_looks_right_at_every_width_and_on_paper(
    real: DataSet, labels: Callable[..., Path], tmp_path: Path, looks_right: Callable[..., None]
) -> None:
    looks_right(write_page(real, labels(), tmp_path / "page.html"))


def test_the_blind_entries_are_those_of_their_file() -> None:
    assert {"never", "always", "clock", "random"} <= blind_entries()
    assert "nonfinite_loss" not in blind_entries()
