"""The quiz in a terminal: pictures where there is one, rows as lines elsewhere, one word a command."""

import secrets
import sys
from collections.abc import Sequence
from time import monotonic
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import UNKNOWN
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import FAILURES, LOGGING
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.pages.quiz.answers import HEALTHY, MOST_NAMED, NAME, NOTHING, STOP, Answer, Sheet, is_name
from trainwreck.evaluation.pages.quiz.curves import FIRST, curves
from trainwreck.evaluation.pages.quiz.quiz import Quiz
from trainwreck.evaluation.pages.quiz.truth import truths
from trainwreck.evaluation.scoring.outcomes import is_excused

ROWS = 10  # that Enter shows
HELP = f"""Enter        {ROWS} more rows; a number: so many
stop NAME,.. it fails, now; up to {MOST_NAMED} causes or families, the likeliest first, or none
healthy      it is fine: let it run to its end
show SIGNAL  another signal beside the loss
names WORD   causes and families with that word
quit         keep the answers so far and end"""
SHOWN = ("Failure", "Signature", "Cure")


def play(dataset: DataSet, quiz: Quiz, player: str) -> Sheet:
    """Ask about every run on stdin and stdout, and give the answers. The end of stdin, or Ctrl-C, is `quit`.

    InputError for a player's name that is none.
    """
    if not is_name(player):
        raise InputError(f"player: {player!r} is not allowed; allowed: {NAME}")
    print(f"{len(quiz.runs)} runs. Say stop when you are sure that a run fails; leave alone what is fine.\n{HELP}")
    answers: list[Answer] = []
    labels = truths(dataset, quiz)
    try:
        for number, run_id in enumerate(quiz.runs["run_id"], start=1):
            print(f"\nrun {number} of {len(quiz.runs)}")
            answers.append(_Run(quiz, number, curves(dataset.trace(run_id), quiz.recipe.profile)).ask())
            print(_truth(labels[number - 1], answers[-1]))
    except (EOFError, KeyboardInterrupt):
        print(f"\nended at run {len(answers) + 1}", file=sys.stderr)
    rest = range(len(answers) + 1, len(quiz.runs) + 1)
    return Sheet(player, secrets.token_hex(8), quiz.recipe, (*answers, *(Answer(run, NOTHING) for run in rest)))


class _Run:
    """One run under way. shown: steps and signals as `curves` gives them."""

    def __init__(self, quiz: Quiz, number: int, shown: dict[str, Any]) -> None:
        self.quiz, self.number = quiz, number
        self.steps: list[int] = shown["steps"]
        self.signals: dict[str, list[Any]] = shown["signals"]
        self.beside = next((name for name in FIRST[1:] if name in self.signals), FIRST[0])
        self.seen = 0
        self.began = monotonic()

    def ask(self) -> Answer:
        """Commands until the answer. An invalid line is reported, and asked for again."""
        self.more(1)
        while True:
            word, _, rest = input("> ").strip().partition(" ")
            try:
                answer = self.obey(word, rest.strip())
            except InputError as error:
                print(error)
                continue
            if answer is not None:
                return answer

    def obey(self, word: str, rest: str) -> Answer | None:
        """Do one command; the answer, if it was one. InputError for a word that is no command."""
        if word == "" or word.isdecimal():
            self.more(int(word) if word else ROWS)
        elif word == "show":
            if rest not in self.signals:
                raise unknown("show", rest, self.signals)
            self.beside = rest
            self.draw(self.seen)
        elif word == "names":
            families = self.quiz.families
            fits = [name for name, family in families.items() if rest in name or rest in family]
            print("\n".join(f"{name} ({families[name]})" for name in sorted(fits)) or "none has that word")
        elif word == "stop":
            names = tuple(dict.fromkeys(name.strip() for name in rest.split(",") if name.strip()))
            return self.answered(STOP, self.steps[self.seen - 1], self.checked(names))
        elif word == "healthy":
            return self.answered(HEALTHY)
        elif word == "quit":
            raise EOFError
        elif word == "help":
            print(HELP)
        else:
            raise unknown("command", word, ("stop", "healthy", "show", "names", "quit", "help", "a number"))
        return None

    def checked(self, names: tuple[str, ...]) -> tuple[str, ...]:
        allowed = [*self.quiz.families, *sorted(set(self.quiz.families.values())), UNKNOWN]
        for name in names:
            if name not in allowed:
                raise unknown("stop", name, allowed)
        if len(names) > MOST_NAMED:
            raise InputError(f"stop: {len(names)} names are not allowed; allowed: up to {MOST_NAMED}")
        return names

    def answered(self, said: str, step: int | None = None, named: tuple[str, ...] = ()) -> Answer:
        return Answer(self.number, said, step, named, round(monotonic() - self.began))

    def more(self, rows: int) -> None:
        before, self.seen = self.seen, min(len(self.steps), self.seen + rows)
        self.draw(before)
        if self.seen == len(self.steps):
            print("the run has ended here")

    def draw(self, since: int) -> None:
        """A picture of all that was seen, or the rows that are new, from row `since`."""
        names = list(dict.fromkeys((FIRST[0], self.beside)))
        if sys.stdout.isatty():
            print(_plot(self.steps[: self.seen], {name: self.signals[name][: self.seen] for name in names}))
            return
        for row in range(since, self.seen):
            values = (f"{name} {_written(self.signals[name][row])}" for name in names if name in self.signals)
            print(f"step {self.steps[row]}  {'  '.join(values)}")


def _written(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:g}"


def _plot(steps: Sequence[int], curves_of: dict[str, list[Any]]) -> str:
    """The curves one above the other, 12 lines each."""
    import plotext

    parts = []
    for name, curve in curves_of.items():
        known = np.array([float(value) if value is not None else np.nan for value in curve])
        finite = np.isfinite(known)
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plotsize(78, 12)
        broken = [step for step, value in zip(steps, curve, strict=True) if isinstance(value, str)]
        plotext.xlabel("step")
        plotext.title(name.replace("_", " ") + (f", not finite from step {broken[0]}" if broken else ""))
        if finite.any():
            plotext.plot(np.array(steps)[finite].tolist(), known[finite].tolist(), marker="braille")
        parts.append(str(plotext.build()))
    return "\n".join([*parts, f"step {steps[-1]}"])


def _truth(truth: dict[str, Any], answer: Answer) -> str:
    """Label, clocks, page and detectors of a run, in lines."""
    causes, stop = " and ".join(truth["causes"]), answer.step
    lines = [f"{truth['kind']}: {causes or ' '.join(page['id'] for page in truth['pages']) or 'nothing was injected'}"]
    if truth["kind"] in FAILURES:
        lines[0] += f"; onset {truth['onset']}, visible {truth['visible']}, point of no return {truth['no_return']}"
        if stop is None:
            lines.append("missed")
        elif stop < truth["onset"]:
            lines.append("too early: nothing was wrong yet")
        else:
            late = f"{stop - truth['onset']} steps after the onset"
            lines.append(f"in time, {late}" if stop < truth["no_return"] else f"too late, {late}")
        if stop is not None and answer.named:
            lines.append(f"named {', '.join(answer.named)}: {_judged(truth, answer.named)}")
    elif stop is not None:
        named_log = LOGGING in truth["families"] and is_excused(LOGGING, answer.named)
        lines.append("no false alarm: the run was fine, and its log is wrong" if named_log else "a false alarm")
    for page in truth["pages"]:
        lines += [f"{name}: {text}" for name, text in page["sections"] if name in SHOWN]
    alarms = sorted((one["first"], one["name"]) for one in truth["detectors"] if one["first"] is not None)
    lines.append("alarms: " + (", ".join(f"{name} {first}" for first, name in alarms) or "none"))
    return "\n".join(lines)


def _judged(truth: dict[str, Any], names: Sequence[str]) -> str:
    if names[0] in truth["causes"]:
        return "right"
    if set(names) & set(truth["causes"]):
        return "right, but not first"
    if set(names) & set(truth["within"]):
        return "not the cause, but one that these signals do not tell from it"
    return "the family is right" if set(names) & set(truth["families"]) else "wrong"
