"""The tour does what it says: its code runs, and its numbers and pictures are those that it makes."""

import importlib.util
import re
import tomllib
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import trainwreck
from trainwreck.evaluation.dataset.sample import sample

SPEC = importlib.util.spec_from_file_location("tour", Path(__file__).with_name("tour.py"))
assert SPEC
assert SPEC.loader
tour = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tour)

TEXT = tour.PAGE.read_text(encoding="utf-8")
WATCHDOG = "$ trainwreck score sample --detector watchdog.py:Watchdog"
NEAR, COARSE = 0.5, 16  # of a picture's ink, pixels: versions of matplotlib and fonts differ
RECORD = tour.ROOT / "results" / "first_hour" / "README.md"
LARGEST = 4_000_000  # bytes of the sample


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """The folder in which the tour was walked, and the page as it is then."""
    folder = tmp_path_factory.mktemp("tour")
    return folder, tour.renewed(TEXT, folder)


def test_every_command_prints_what_the_page_says(walked):
    assert tour.without_times(walked[1]) == tour.without_times(TEXT)


def test_every_picture_is_what_a_command_makes(walked):
    shown = tour.pictures(TEXT)
    assert {path.name for path in tour.PICTURES.iterdir()} == set(shown)
    assert {path.name for path in walked[0].glob("*.png")} == set(shown)
    for name in shown:
        committed, made = (matplotlib.image.imread(folder / name) for folder in (tour.PICTURES, walked[0]))
        assert committed.shape == made.shape
        assert apart(committed, made) < NEAR
        assert apart(made[:, ::-1], made) > NEAR  # another picture would be seen


def apart(one, other):
    """Mean difference of two pictures over that of one and a white page, in squares of `COARSE` pixels."""
    one, other = coarse(one), coarse(other)
    return np.abs(one - other).mean() / np.abs(1 - other).mean()


def coarse(picture):
    height, width = (side // COARSE for side in picture.shape[:2])
    squares = picture[: height * COARSE, : width * COARSE, :3].reshape(height, COARSE, width, COARSE, 3)
    return squares.mean((1, 3))


def test_it_is_installed_as_everywhere_else():
    install = "pip install -c constraints.txt -e ."
    assert install in TEXT
    assert install in (tour.ROOT / "README.md").read_text(encoding="utf-8")
    make = (tour.ROOT / "Makefile").read_text(encoding="utf-8")
    assert "pip install --quiet --disable-pip-version-check -c constraints.txt\n" in make
    assert "$(INSTALL) -e .\n" in make
    project = tomllib.loads((tour.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    low, high = re.fullmatch(r">=(3\.\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert f"Python {low} to 3.{int(high) - 1}" in TEXT


def test_it_leads_on_and_is_found():
    assert "](docs/tour.md)" in (tour.ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_detector_has_ten_lines():
    code = next(found["content"] for found in tour.BLOCK.finditer(TEXT) if found["name"] == "watchdog.py")
    assert len(code.splitlines()) == 10


AT_5 = r"in-time recall .*\] +(\d\.\d\d) \[[\d., ]+\]\n"  # the last column


@pytest.mark.parametrize("pattern", [AT_5, r"W\* \(rollback, 10 % failing\) (\d\.\d\d)"])
def test_each_step_is_better_than_the_one_before(pattern):
    numbers = [float(number) for number in re.findall(pattern, TEXT[TEXT.index(WATCHDOG) :])]
    assert len(numbers) == 3
    assert numbers == sorted(set(numbers))


def test_what_the_text_says_of_the_numbers_holds(walked):
    zclip, first, second, _ = re.findall(AT_5, TEXT)
    text = " ".join(TEXT.split())
    assert f"a step from {first} to {second} is an illustration, not evidence" in text
    assert f"An equal guess would have {re.findall(r'chance (0[.]..)', TEXT)[0]}" in TEXT
    assert re.search(r"in-time recall +0\.38 .*\n  healthy runs stopped +0\.50 ", TEXT)  # "three of eight", "half"
    assert zclip < first
    board = [line.split() for line in TEXT[TEXT.index("$ python board.py") :].splitlines()[2:7]]
    assert [row[2] for row in board[:2]] == [
        "playbook",
        "watchdog.py:Watchdog",
    ]  # "behind playbook", "ahead of the others"
    assert {row[1] for row in board} == {"1"}  # "all share the first rank"
    assert (walked[0] / "diagnosis.html").is_file()


def test_what_the_text_says_of_the_pictures_holds(walked):
    data = trainwreck.load("sample")
    failing = data.runs.query("split == 'test' and kind == 'failing'")
    text = " ".join(TEXT.split())
    names = ("zclip", f"{walked[0] / 'watchdog.py'}:Watchdog")
    zclip, own = ({one.run_id: one.first_alarm for one in trainwreck.score(name, data).alarms} for name in names)
    first, missing = (failing[failing["cause"] == cause].iloc[0] for cause in ("gradients_not_cleared", "mask_missing"))
    onset, visible, alarm = int(first["onset_step"]), int(first["visible_step"]), zclip[first["run_id"]]
    assert f"From the onset at step {onset} on" in text
    assert f"can be seen from step {visible} on; `zclip` raises its alarm at step {alarm}" in text
    assert alarm < first["no_return_step"]  # "early enough for the cure"
    onset, early = int(missing["onset_step"]), int(missing["onset_step"]) - zclip[missing["run_id"]]
    assert own[missing["run_id"]] == onset
    assert f"at the onset, step {onset}, where Watchdog alarms; zclip alarms {early} steps too early" in text


def test_a_wrong_number_would_be_seen(tmp_path):
    wrong = TEXT.replace("$ python missed.py\n", "$ python missed.py\nnan 9.9\n", 1)
    assert wrong != TEXT
    assert tour.without_times("  3.1 us an update") == tour.without_times("  12.0 us an update")
    assert tour.without_times(wrong) != tour.without_times(TEXT)


def test_a_command_that_fails_is_told(tmp_path):
    with pytest.raises(RuntimeError, match="did you mean 'zclip'"):
        tour.run("trainwreck score sample --detector zclop", tmp_path)


def test_only_the_first_lines_are_shown_where_a_command_says_so(tmp_path):
    every, first = (tour.run(f"trainwreck show high_lr{cut}", tmp_path).splitlines() for cut in ("", " | head -3"))
    assert first == every[:3]
    assert len(every) > 3


def test_results_are_short_in_a_notebook():
    for expression, one in tour.shown().items():
        assert len(repr(one).splitlines()) <= 30, expression
        assert "<" in one._repr_html_(), expression


def test_the_sample_is_small():
    assert sum(path.stat().st_size for path in sample().rglob("*") if path.is_file()) <= LARGEST


@pytest.mark.skipif(not RECORD.exists(), reason="not measured yet: python tests/packaging/tour.py --measure")
def test_what_the_first_hour_cost_is_of_this_page():
    recorded = RECORD.read_text(encoding="utf-8")
    blocks = [found["content"] for found in tour.BLOCK.finditer(TEXT) if found["kind"] == "console"]
    typed = [command.replace("|", "&#124;") for block in blocks for command in tour.commands(block)]
    assert [row for row in typed if f"| `{row}` |" not in recorded] == []
    assert all(f"| {reached} |" in recorded for reached in tour.MILESTONES)
