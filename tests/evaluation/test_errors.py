"""Text of others on its way to a terminal."""

import pytest

from trainwreck.evaluation.errors import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with ünïcode and \u8aad", "plain, with ünïcode and \u8aad"),
        ("a\x1b[31mb\x1b[0m\x9b2Jc", "abc"),
        ("\x1b]0;the window's title\x07loss", "loss"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2;0;0;0\x1b\\a\x1bcb", "ab"),
        ("first\r\nsecond\tthird\x0bfourth", "first second third fourth"),
        ("\x1b\x1b[31m[31mnested", r"\x1b[31mnested"),
        ("\x1b]no end: what follows stays", r"\x1b]no end: what follows stays"),
        ("bell \x07 backspace \x08 delete \x7f", r"bell \x07 backspace \x08 delete \x7f"),
        ("lone \ud800 surrogate, \u202eright to left", r"lone \ud800 surrogate, \u202eright to left"),
        (ValueError("\x1b[2Jgone"), "gone"),
    ],
)
def test_printable(text: object, shown: str) -> None:
    cleaned = printable(text)
    assert cleaned == shown
    assert cleaned.isprintable()
    cleaned.encode("utf-8")


def test_long_text_keeps_both_ends() -> None:
    cleaned = printable("begin" + "x" * 100_000 + "end", limit=50)
    assert len(cleaned) <= 50
    assert cleaned.startswith("begin")
    assert cleaned.endswith("end")
