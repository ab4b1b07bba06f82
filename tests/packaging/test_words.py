"""Plain technical English: the wordings of words.txt are in no file of the checked folders."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = Path(__file__).with_name("words.txt")
TEXT = {".py", ".md", ".jinja", ".js", ".css", ".toml", ".cff", ".yml", ".sh", ".pl"}

# What is checked, from the root; "." is everything. Widen it to "." and empty GENERATED once the code is swept.
CHECKED = ("README.md", "CONTRIBUTING.md", "CITATION.cff", "docs")
# Written by code from its own texts, or about the words themselves.
GENERATED = ("docs/schema.md", "docs/monitors.md")
EXEMPT = ("tests/packaging/test_words.py", "evaluation/sample")
SKIPPED = {".git", ".venv", ".venv-gpu", "__pycache__", "build", "dist", "runs"}


def words(text: str) -> list[tuple[re.Pattern[str], str]]:
    """Patterns and what to write instead, of a word list."""
    pairs = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return [(re.compile(pattern, re.IGNORECASE | re.MULTILINE), instead) for pattern, instead in pairs]


def found(text: str, name: str, listed: list[tuple[re.Pattern[str], str]]) -> list[str]:
    """`file:line: wording; write: ...` for every listed wording of a text."""
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()!r}; write: {instead}"
        for pattern, instead in listed
        for match in pattern.finditer(text)
    ]


def files(places: tuple[str, ...]) -> list[Path]:
    """Text files under the places, from the root, without folders that git ignores and what code generates."""
    kept = []
    for place in places:
        if (ROOT / place).is_file():
            kept.append(ROOT / place)
        for folder, inner, names in os.walk(ROOT / place):
            inner[:] = sorted(name for name in inner if name not in SKIPPED and not name.endswith(".egg-info"))
            kept += [Path(folder) / name for name in sorted(names)]
    skipped = (*GENERATED, *EXEMPT)
    return [path for path in kept if path.suffix in TEXT and not path.relative_to(ROOT).as_posix().startswith(skipped)]


LISTED = words(WORDS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", files(CHECKED), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_has_none_of_the_words(path):
    name = path.relative_to(ROOT).as_posix()
    assert found(path.read_text(encoding="utf-8"), name, LISTED) == []


def test_a_word_is_found_with_its_file_and_line():
    text = "Fine.\nThe two runs are equal To The Bit.\n"
    assert found(text, "docs/a.md", LISTED) == ["docs/a.md:2: 'To The Bit'; write: bitwise"]


def test_ordinary_words_are_not_found():
    fine = [
        "Look at the gradient norm beside the loss.",
        "The detector feeds on rows, at a pace of its own, and tells the cause.",
        "It is said that the run was asked for.",
        "x = there == 1",
    ]
    assert [found(line, "a.md", LISTED) for line in fine] == [[]] * len(fine)


def test_the_list_has_a_pattern_and_advice_a_line():
    assert len(LISTED) > 20
    assert all(instead for _, instead in LISTED)
    assert len({pattern.pattern for pattern, _ in LISTED}) == len(LISTED)
    assert len(files(CHECKED)) > 20
