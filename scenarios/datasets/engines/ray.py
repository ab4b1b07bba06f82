"""Ray Core actors, of a cluster or of one started here. Needs the extra `ray`.

Ray's documentation, "Actor Fault Tolerance": an actor that dies fails the call that it was at, and is not started
again unless one asks for that. One new actor takes its place here, and the dispatcher decides about the call.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.datasets.engines.call import Call, End, Ended
from trainwreck.scenarios.datasets.engines.engine import Engine


@dataclass(frozen=True)
class Ray:
    """address: of a running cluster, as `ray.init` takes it; None starts one on this machine.

    workers: actors, of one core each; None for one a core. gpus: of each. memory: bytes of each; None for no limit.
    """

    workers: int | None = None
    address: str | None = None
    gpus: int = 0
    memory: int | None = None
    name: str = "ray"

    def check(self) -> None:
        _library()

    def fit(self, least: int, device: str) -> "Ray":
        return self

    def share(self, device: str) -> int | None:
        return self.memory

    def start(self, pieces: int) -> Engine:
        """InputError where no cluster is at the address."""
        return Actors(self, pieces)


class Actors:
    """One actor a slot, started when it is first needed."""

    doubles = True

    def __init__(self, settings: Ray, pieces: int) -> None:
        self.ray = _library()
        self._ours = not self.ray.is_initialized()
        if self._ours:
            _connect(self.ray, settings, pieces)
        count = max(1, min(settings.workers or int(self.ray.cluster_resources().get("CPU", 1)), pieces))
        self.slots = self.workers = count
        self.refill = count - 1
        resources = {"num_cpus": 1, "num_gpus": settings.gpus, "memory": settings.memory, "max_restarts": 0}
        given = {name: value for name, value in resources.items() if value is not None}
        self._kind = self.ray.remote(**given)(_actor())
        here = str(Path.cwd())
        self._apart = [here] if here not in sys.path else []
        self._idle: list[Any] = []
        self._at_work: dict[Any, tuple[int, Any]] = {}

    def submit(self, calls: Sequence[Call]) -> None:
        for call in calls:
            actor = self._idle.pop() if self._idle else self._kind.remote()
            self._at_work[actor.attempt.remote(self._apart, cloudpickle.dumps(call))] = (call.ticket, actor)

    def ended(self, seconds: float | None) -> list[Ended]:
        done, _ = self.ray.wait(list(self._at_work), num_returns=1, timeout=seconds)
        return [self._end(reference) for reference in done]

    def _end(self, reference: Any) -> Ended:
        ticket, actor = self._at_work.pop(reference)
        try:
            ended: Ended = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:  # its worker could not even read or answer it
            self._idle.append(actor)
            return Ended(ticket, End.RAISED, error.cause or error)
        except self.ray.exceptions.RayError as error:
            self.ray.kill(actor)
            last = str(error).strip().splitlines()[-1:]
            return Ended(ticket, End.LOST, why=": ".join([f"lost its actor ({type(error).__name__})", *last]))
        if ended.end is End.SHORT:  # what an old process has kept is not there in a new one
            self.ray.kill(actor)
        else:
            self._idle.append(actor)
        return ended

    def cancel(self, ticket: int) -> None:
        for reference, (mine, actor) in list(self._at_work.items()):
            if mine == ticket:
                del self._at_work[reference]
                self.ray.kill(actor)

    def close(self) -> None:
        for actor in [*self._idle, *(actor for _, actor in self._at_work.values())]:
            self.ray.kill(actor)
        self._idle, self._at_work = [], {}
        if self._ours:
            self.ray.shutdown()


def _actor() -> type:
    """The actor's class.

    Ray lets a worker import from the folder that the driver runs in, before all else. What lies there may be called
    as this package is (in a checkout it is), so the class travels as it is and unpacks its calls itself, once that
    folder is out of the way.
    """

    class Worker:
        def attempt(self, apart: list[str], packed: bytes) -> Any:
            import sys

            sys.path[:] = [entry for entry in sys.path if entry not in apart]
            import cloudpickle

            from trainwreck.scenarios.datasets.engines.call import attempt

            return attempt(cloudpickle.loads(packed))

    return Worker


def _library() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError(
            "engine: 'ray' is not allowed without its library; allowed: pip install 'trainwreck[ray]', or local"
        ) from None
    return ray


def _connect(ray: Any, settings: Ray, pieces: int) -> None:
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if settings.address is None:
        from trainwreck.scenarios.training.environment import cores

        count = min(settings.workers or cores(), pieces)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing goes out
        try:
            ray.init(num_cpus=count, num_gpus=count * settings.gpus, include_dashboard=False, **quiet)
        except Exception as error:  # Ray has no class of its own for it
            reason = " ".join(str(error).split())
            raise InputError(f"engine: 'ray' does not start here ({reason}); allowed: local") from error
        return
    try:
        ray.init(address=settings.address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"ray-address: {settings.address!r} is not allowed, no cluster answers there ({reason}); "
            "allowed: the address of a running one, or auto"
        ) from None
