"""The tutorial does what it says: its code runs, its numbers are those printed, and they go up."""

import importlib.util
import re
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("tutorial", Path(__file__).with_name("tutorial.py"))
assert SPEC
assert SPEC.loader
tutorial = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tutorial)

TEXT = tutorial.PAGE.read_text(encoding="utf-8")


def test_every_command_prints_what_the_page_says(tmp_path):
    assert tutorial.without_times(tutorial.renewed(TEXT, tmp_path)) == tutorial.without_times(TEXT)


def test_the_first_detector_has_ten_lines():
    code = next(found["content"] for found in tutorial.BLOCK.finditer(TEXT) if found["name"] == "watchdog.py")
    assert len(code.splitlines()) == 10


AT_5 = r"in-time recall .*\] +(\d\.\d\d) \[[\d., ]+\]\n"  # the last column


@pytest.mark.parametrize("pattern", [AT_5, r"W\* \(rollback, 10 % failing\) (\d\.\d\d)"])
def test_each_step_is_better_than_the_one_before(pattern):
    numbers = [float(number) for number in re.findall(pattern, TEXT)]
    assert len(numbers) == 3
    assert numbers == sorted(set(numbers))


def test_what_the_text_says_of_the_numbers_holds():
    first, second = re.findall(AT_5, TEXT)[:2]
    assert f"a step from {first} to {second} is an illustration, not evidence" in " ".join(TEXT.split())
    assert f"An equal guess would have {re.findall(r'chance (0[.]..)', TEXT)[0]}" in TEXT


def test_a_wrong_number_would_be_seen(tmp_path):
    wrong = TEXT.replace("$ python missed.py\n", "$ python missed.py\nnan 9.9\n", 1)
    assert wrong != TEXT
    (tmp_path / "watchdog.py").write_text("", encoding="utf-8")
    assert tutorial.without_times("  3.1 us an update") == tutorial.without_times("  12.0 us an update")
    assert tutorial.without_times(wrong) != tutorial.without_times(TEXT)


def test_a_command_that_fails_is_told(tmp_path):
    with pytest.raises(RuntimeError, match="did you mean 'zclip'"):
        tutorial.run("trainwreck score sample --detector zclop", tmp_path)
