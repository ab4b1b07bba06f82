"""Plain technical English: the wordings of words.txt are in no file of the checked folders."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = Path(__file__).with_name("words.txt")
TEXT = {".py", ".md", ".jinja", ".js", ".css", ".toml", ".cff", ".yml", ".yaml", ".ipynb", ".sh", ".pl", ".txt"}

# What is checked, from the root; "." is everything.
CHECKED = (".",)
GENERATED = ()
# The words themselves, files whose bytes are checksummed, and folders at the root that git ignores.
EXEMPT = ("tests/packaging/test_words.py", "tests/packaging/words.txt", "evaluation/sample/", "demo/", "site/")
SKIPPED = {"__pycache__", "build", "dist", "runs", "wheels"}


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
    """Text files under the places, from the root, without hidden folders, folders that git ignores and exempt files."""
    kept = []
    for place in places:
        if (ROOT / place).is_file():
            kept.append(ROOT / place)
        for folder, inner, names in os.walk(ROOT / place):
            inner[:] = sorted(
                name for name in inner if name not in SKIPPED and name[0] != "." and name[-9:] != ".egg-info"
            )
            kept += [Path(folder) / name for name in sorted(names)]
    skipped = (*GENERATED, *EXEMPT)
    return [path for path in kept if path.suffix in TEXT and not path.relative_to(ROOT).as_posix().startswith(skipped)]


LISTED = words(WORDS.read_text(encoding="utf-8"))


def by_place(paths: list[Path]) -> dict[str, list[Path]]:
    """The paths by the first part of their names from the root: a folder, or a file at the root."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        found.setdefault(path.relative_to(ROOT).parts[0], []).append(path)
    return found


FILES = by_place(files(CHECKED))


@pytest.mark.parametrize("place", FILES)
def test_a_place_has_none_of_the_words(place):
    findings = []
    for path in FILES[place]:
        findings += found(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix(), LISTED)
    assert not findings, "\n".join(findings)


def test_a_word_is_found_with_its_file_and_line():
    text = "Fine.\nThe two runs are equal To The Bit.\n"
    assert found(text, "docs/a.md", LISTED) == ["docs/a.md:2: 'To The Bit'; write: bitwise"]
    assert [len(found(line, "a.py", LISTED)) for line in ("Feed(x)", "it was fed rows", "told = 1")] == [1, 1, 1]


def test_ordinary_words_are_not_found():
    fine = [
        "Look at the gradient norm beside the loss.",
        "The detector feeds on rows, at a pace of its own, and tells the cause.",
        "It is said that the run was asked for.",
        "x = there == 1",
        "parser.feed(text)",
        "hash of the tokens that the rank was fed",
    ]
    assert [found(line, "a.md", LISTED) for line in fine] == [[]] * len(fine)


def test_the_list_has_a_pattern_and_advice_a_line():
    assert len(LISTED) > 20
    assert all(instead for _, instead in LISTED)
    assert len({pattern.pattern for pattern, _ in LISTED}) == len(LISTED)


def test_every_folder_of_the_package_is_checked():
    assert {"README.md", "docs", "evaluation", "kernels", "models", "results", "scenarios", "tests", "trainwreck"} <= {
        *FILES
    }
    assert sum(map(len, FILES.values())) > 900
