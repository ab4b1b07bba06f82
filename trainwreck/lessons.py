"""What the lessons' exercises are checked with: an answer, and what is right."""

from typing import Any

import numpy as np

RIGHT, OPEN, WRONG = "right", "open", "not right yet"


def check(what: str, answer: Any, right: Any, *, within: float = 0.0, hint: str = "") -> None:
    """Print whether an answer is right, not right yet, or still open (`...`); never raises.

    right: a number, a text, a truth value, an array of numbers, or a function that says whether an answer is right.
    within: how far a number may be off: within + within * |right|.

        >>> check("lead in steps", 31, 31)
        lead in steps: right
        >>> check("lead in steps", ..., 31)
        lead in steps: open; write your answer in place of ... and run the cell again
    """
    verdict = OPEN if answer is ... else RIGHT if _judged(answer, right, within) else WRONG
    more = {OPEN: "; write your answer in place of ... and run the cell again", RIGHT: "", WRONG: hint and f"; {hint}"}
    shown = f", you have {_short(answer)}" if verdict == WRONG else ""
    print(f"{what}: {verdict}{shown}{more[verdict]}")


def _judged(answer: Any, right: Any, within: float) -> bool:
    try:
        return bool(right(answer)) if callable(right) else _same(answer, right, within)
    except Exception:  # whatever a learner's mistake raises, it is not right, and the notebook goes on
        return False


def _same(answer: Any, right: Any, within: float) -> bool:
    if isinstance(right, str | bool):
        return bool(answer == right)
    given, wanted = np.asarray(answer, np.float64), np.asarray(right, np.float64)
    return given.shape == wanted.shape and np.allclose(given, wanted, rtol=within, atol=within, equal_nan=True)


def _short(answer: Any) -> str:
    if isinstance(answer, float | np.floating):
        return f"{answer:.6g}"
    text = " ".join(repr(answer).split())
    return text if len(text) <= 60 else text[:57] + "..."
