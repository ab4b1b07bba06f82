"""A policy of others in an episode: a confined process of its own, which lives as long as the episode.

No process is shown two episodes. It can't tell a run from others that are trained beside it, and what it does to
itself is done to one episode. The seed of `reset` is drawn, and the order of the episodes too.
"""

import secrets
from collections.abc import Callable, Collection, Sequence
from time import monotonic
from typing import Any, TypeVar

from trainwreck.evaluation.detectors.base import OutputError
from trainwreck.evaluation.errors import InputError, printable, printable_error
from trainwreck.evaluation.replay.alarms import CONFINEMENT, CRASHED, GARBAGE, OK, TIMEOUT
from trainwreck.evaluation.replay.sandbox.isolated import GIVE_UP
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.messages import answer
from trainwreck.evaluation.replay.sandbox.process import OUT_OF_TIME, FailedError
from trainwreck.evaluation.replay.sandbox.remote import Remote
from trainwreck.scenarios.datasets.engines.limits import SHARE, available
from trainwreck.scenarios.rescue.observation import Observation
from trainwreck.scenarios.rescue.remote import messages

T = TypeVar("T")
MOST_AT_ONCE = 32  # processes
EPISODES = 100  # for each so many the time of `Limits.minutes`, as each begins a process
GO_ON = "continue"
LONGEST = 500  # characters of a status


class NoAnswerError(Exception):
    """A policy gave no answer that can be used. Its text is the status: a kind, a colon and what happened."""


class RemotePolicy(Remote):
    """A process with one policy in it, for one episode. Raises as `Remote`."""

    def reset(self, seed: int) -> None:
        """Begin the episode."""
        if self._packed:
            raise FailedError(GARBAGE, "batches: true is not allowed; allowed: false, of a policy")
        answer(self._ask(messages.reset(seed)), "ready")

    def act(self, seen: Observation) -> tuple[str, tuple[str, ...] | None]:
        """Its action, as text, and the causes that it names, None where it names none. Raises OutputError as well."""
        (line,) = self._process.ask(messages.observation(seen, self._signals), self._limits.row_seconds)
        return messages.action(line, seen.step)

    def end(self) -> tuple[str, ...] | None:
        """End the episode; the causes that it names at last. Raises OutputError as well."""
        (line,) = self._process.ask(messages.END, self._limits.row_seconds)
        found = messages.ended(line)
        self._process.check_silent()
        return found


class ConfinedPolicy:
    """A policy of others, by the name that it has in tables. Called, it gives a `Player` for an episode.

    begin: starts a process and loads the policy; raises InputError where it can't be, FailedError otherwise. known:
    cause ids that may be named. `close` ends a process that was begun and not used.
    """

    def __init__(self, name: str, begin: Callable[[], RemotePolicy], limits: Limits, known: Collection[str]) -> None:
        self.name, self.limits, self.known = name, limits, known
        self._begin = begin
        self._loaded: RemotePolicy | None = None
        self._seconds = 60.0 * limits.minutes
        self._timeouts: list[str] = []  # in a row
        self.about: dict[str, Any] = {}

    def load(self) -> None:
        """Begin a process, so that a policy that can't be loaded fails here. Raises InputError, FailedError."""
        self._loaded = self.process()

    def __call__(self) -> "Player":
        return Player(self)

    @property
    def at_once(self) -> int:
        """Episodes side by side, so that the memory of all their processes together is there."""
        memory = available()
        fit = MOST_AT_ONCE if memory is None else int(SHARE * memory / (self.limits.memory_mb * 2**20))
        return min(MOST_AT_ONCE, max(1, fit))

    def drawn(self, cases: Sequence[T]) -> list[T]:
        """Cases in an order that is drawn, for which there is time from now on."""
        self._seconds = 60.0 * self.limits.minutes * max(1.0, len(cases) / EPISODES)
        left = list(cases)
        secrets.SystemRandom().shuffle(left)
        return left

    def process(self) -> RemotePolicy:
        """A process with the policy in it, for one episode. Raises InputError, FailedError."""
        found, self._loaded = self._loaded, None
        if found is None:
            found = self._begin()
            self.about = found.about | {CONFINEMENT: found.confinement}
        return found

    def timed(self, ask: Callable[[float], T]) -> T:
        """What is asked, within the time that is left. ask: gets the time at which it is over, of `monotonic`.

        Raises FailedError for what it raises, and where nothing more is tried.
        """
        if self._seconds <= 0.0:
            raise FailedError(TIMEOUT, f"not tried, {OUT_OF_TIME}")
        if len(self._timeouts) >= GIVE_UP:
            raise FailedError(
                TIMEOUT, f"not tried, {GIVE_UP} answers in a row had timed out, the first: {self._timeouts[0]}"
            )
        begun = monotonic()
        try:
            found = ask(begun + self._seconds)
            self._timeouts.clear()
            return found
        except FailedError as error:
            if error.kind == TIMEOUT:
                self._timeouts.append(error.reason)
            else:
                self._timeouts.clear()
            raise
        finally:
            self._seconds -= monotonic() - begun

    def close(self) -> None:
        """End the process that was begun first, where no episode has it."""
        found, self._loaded = self._loaded, None
        if found is not None:
            found.close()


class Player:
    """A policy in one episode. status: `ok`, or what it failed with first. causes: that it named last.

    After a failure of its process it says no more, and the episode goes on untouched.
    """

    def __init__(self, policy: ConfinedPolicy) -> None:
        self._policy = policy
        self._remote: RemotePolicy | None = None
        self._lost = False
        self.status = OK
        self.causes: tuple[str, ...] = ()

    def reset(self, seed: int) -> None:
        """Nothing yet: the process begins with the first question. seed: not used, since it is the plan's."""

    def act(self, seen: Observation) -> str:
        """An action, as text. Raises NoAnswerError, once where the process is lost."""
        if self._lost:
            return GO_ON
        text, causes = self._asked(lambda remote: remote.act(seen))
        self._named(causes)
        return text

    def finish(self) -> None:
        """Tell it that the episode is over; sets what it says of the causes, or how it failed."""
        try:
            if self._remote is not None:
                self._named(self._asked(lambda remote: remote.end()))
        except NoAnswerError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """End the process."""
        self._lost = True
        if self._remote is not None:
            remote, self._remote = self._remote, None
            remote.close()

    def _named(self, causes: tuple[str, ...] | None) -> None:
        strange = [cause for cause in causes or () if cause not in self._policy.known]
        if strange:
            raise self._failed(f"{GARBAGE}: causes: {strange[0]!r} is not allowed; allowed: cause ids")
        self.causes = self.causes if causes is None else causes

    def _asked(self, question: Callable[[RemotePolicy], T]) -> T:
        """The answer to a question. Raises NoAnswerError for whatever comes instead."""

        def ask(until: float) -> T:
            if self._remote is None:
                self._remote = self._policy.process()
                self._remote.until = until
                self._remote.reset(secrets.randbits(63))
            self._remote.until = until
            return question(self._remote)

        try:
            return self._policy.timed(ask)
        except OutputError as error:  # the next question can be answered
            raise self._failed(f"{GARBAGE}: {error}") from None
        except FailedError as error:
            printed = self._remote.last_lines() if self._remote is not None else error.printed
            last = f"; it printed last: {printed[-1]}" if printed and not error.alive else ""
            self.close()
            raise self._failed(f"{error}{last}") from None
        except InputError as error:  # it was loaded once, and can't be again
            self.close()
            raise self._failed(f"{CRASHED}: {error}") from None
        except Exception as error:  # what it answered was not foreseen, and it must not take other episodes with it
            self.close()
            raise self._failed(f"{GARBAGE}: {printable_error(error)}") from None

    def _failed(self, status: str) -> NoAnswerError:
        status = printable(status, LONGEST)
        self.status = status if self.status == OK else self.status
        return NoAnswerError(status)
