"""An agent that acts on one episode after another by calls: the four tools of docs/rescue.md, without their transport.

The runs come in an order that is drawn, and nothing that is answered names one.
"""

import json
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.detectors.registry import is_builtin
from trainwreck.evaluation.errors import InputError, printable
from trainwreck.evaluation.replay.alarms import CRASHED, GARBAGE, TIMEOUT
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.messages import row
from trainwreck.scenarios.rescue.actions import Action, Kind
from trainwreck.scenarios.rescue.episode import Episode, advance
from trainwreck.scenarios.rescue.kept import Kept
from trainwreck.scenarios.rescue.outcomes import Case, outcome
from trainwreck.scenarios.rescue.remote.messages import LONGEST as LONGEST_TEXT
from trainwreck.scenarios.rescue.remote.messages import MOST_CAUSES
from trainwreck.scenarios.rescue.remote.player import LONGEST

Answer = dict[str, Any]
NONE_LEFT = "no episode is left"
NOT_BEGUN = "no episode is under way; allowed: observe, which begins one"


class Agent:
    """Episodes of one agent, kept in a file as they end. Each call gives plain types that JSON has.

    name: of the agent, in tables. limits: `row_seconds` from an answer to the next call within an episode. known:
    cause ids that may be named. Raises InputError for a file of another profile or block.
    """

    def __init__(
        self,
        name: str,
        cases: Sequence[Case],
        out: Path,
        limits: Limits,
        known: Collection[str],
        *,
        profile: str,
        block: int,
    ) -> None:
        self._name, self._limits, self._known = name, limits, known
        self._head: dict[str, Any] = {"profile": profile, "block": block}
        self._kept = Kept(out, self._head)
        done = {one.run_id for one in self._kept.outcomes if one.policy == name}
        self._left = [case for case in cases if case.spec.run_id not in done]
        secrets.SystemRandom().shuffle(self._left)
        self._number = 0
        self._case: Case | None = None
        self._episode: Episode | None = None
        self._causes: tuple[str, ...] = ()
        self._shown = 0  # steps before this one were shown
        self._rolled_back = False
        self._answered = 0.0  # time of the last answer
        self._one_call = Lock()

    def observe(self) -> Answer:
        """The rows since the last observation; begins an episode where none is under way."""
        with self._one_call:
            self._in_time()
            if self._episode is None or self._episode.ended:
                if not self._left:
                    return {"left": 0, "message": NONE_LEFT}
                self._begin()
            return self._finished(self._seen())

    def ask(self, what: str) -> Answer:
        """A signal to be logged from the next block on, or what a built-in detector says of the rows so far."""
        with self._one_call:
            if (episode := self._in_time()) is None:
                return {"message": NOT_BEGUN}
            kind = Kind.ASK_SIGNAL if what in {signal.name for signal in SIGNALS} else Kind.ASK_DETECTOR
            if kind is Kind.ASK_DETECTOR and not is_builtin(what[:LONGEST_TEXT]):
                return self._refused(f"{GARBAGE}: ask: {what[:60]!r} is not allowed; allowed: a signal or a detector")
            return self._done(episode, Action(kind, what))

    def act(self, action: str) -> Answer:
        """Do something, then train a block. What is no action counts as `continue`."""
        with self._one_call:
            if (episode := self._in_time()) is None:
                return {"message": NOT_BEGUN}
            try:
                if len(action) > LONGEST_TEXT:
                    raise InputError(f"action: {len(action)} characters are not allowed; allowed: {LONGEST_TEXT}")
                chosen = Action.parse(action)
            except InputError as error:
                return self._refused(f"{GARBAGE}: {error}", train=True)
            return self._done(episode, chosen)

    def diagnose(self, causes: list[str]) -> Answer:
        """Name the causes of the failure, the likeliest first; what is named last counts. Trains nothing."""
        with self._one_call:
            if self._in_time() is None:
                return {"message": NOT_BEGUN}
            strange = [cause for cause in causes if cause not in self._known]
            if strange or len(causes) > MOST_CAUSES:
                found = repr(strange[0][:60]) if strange else f"{len(causes)} of them"
                return self._refused(f"{GARBAGE}: causes: {found} not allowed; allowed: up to {MOST_CAUSES} cause ids")
            self._causes = tuple(causes)
            return self._finished({"causes": causes})

    def leave(self) -> None:
        """The client is gone: what is under way goes on untouched, and is kept."""
        with self._one_call:
            if self._episode is not None and not self._episode.ended:
                self._go_on_untouched(f"{CRASHED}: the client left")

    def _begin(self) -> None:
        self._case = self._left.pop()
        self._episode = Episode(self._case.spec, **self._head)
        self._number, self._causes, self._shown, self._rolled_back = self._number + 1, (), 0, False

    def _seen(self) -> Answer:
        """What is shown, with the signals that have a value."""
        assert self._episode is not None
        seen = self._episode.observation()
        rows = [one for one in seen.history if one["step"] >= self._shown]
        found = {
            "episode": self._number,
            "left": len(self._left),
            "step": seen.step,
            "planned": seen.planned,
            "spent": seen.spent,
            "rolled_back": self._rolled_back,
            "rows": [_logged(dict(one)) for one in rows],
        }
        self._shown, self._rolled_back = seen.step, False
        return found

    def _done(self, episode: Episode, action: Action) -> Answer:
        """An action, carried out. One after the end is the episode's status."""
        if episode.ended:
            return self._refused(f"{GARBAGE}: action: {action} is not allowed; the episode has ended ({episode.ended})")
        episode.act(action)
        note, answer = episode.actions[-1].note, episode.observation().answer
        if action.kind in (Kind.ROLL_BACK, Kind.ROLL_BACK_AND_SKIP):
            self._rolled_back = True
        self._shown = min(self._shown, episode.step)
        if not action.asks:
            advance([episode])
        texts = {key: text for key, text in (("note", note), ("answer", answer)) if text}
        return self._finished(texts)

    def _refused(self, status: str, *, train: bool = False) -> Answer:
        """Keep that an answer could not be used; the run goes on untouched. train: a block, as after `continue`."""
        assert self._episode is not None
        self._episode.refuse(printable(status, LONGEST))
        if train and not self._episode.ended:
            advance([self._episode])
        return self._finished({"refused": printable(status, LONGEST)})

    def _in_time(self) -> Episode | None:
        """The episode, None before the first; one whose agent took too long has gone on untouched."""
        episode, seconds = self._episode, self._limits.row_seconds
        if episode is not None and not episode.ended and monotonic() - self._answered > seconds:
            self._go_on_untouched(f"{TIMEOUT}: no call within {seconds:g} s")
        return episode

    def _go_on_untouched(self, status: str) -> None:
        assert self._episode is not None
        self._episode.refuse(status)
        while not self._episode.ended:
            advance([self._episode])
        self._finished({})

    def _finished(self, answer: Answer) -> Answer:
        """An answer with where the episode is; one that has ended is kept."""
        assert self._episode is not None
        assert self._case is not None
        episode = self._episode
        if episode.ended:
            self._kept.replace(outcome(self._case, episode, self._name, self._causes))
        self._answered = monotonic()
        return {"step": episode.step, "ended": episode.ended, "status": episode.status} | answer


def _logged(seen: dict[str, Any]) -> dict[str, Any]:
    """A row without the signals that have no value, and with numbers that JSON has."""
    line = row({name: value for name, value in seen.items() if value is not None})
    found: dict[str, Any] = json.loads(line)["row"]
    return found
