"""Attempts drawn at random until the time is up: `make fuzz` for an hour, `.ci/run` for five minutes.

FUZZ_SECONDS is the time of each test (60), FUZZ_SEED the seed of the first attempt (0, the same attempts in each run of
`.ci/run`; `make fuzz` draws one). An attempt that fails names its seed: FUZZ_SEED=<seed> begins with it.
"""

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

Attempts = Callable[[], Iterator[random.Random]]


@pytest.fixture
def attempts(record_property: Callable[[str, object], None]) -> Attempts:
    """Generators of random numbers, one an attempt, for FUZZ_SECONDS and at least one."""

    def drawn() -> Iterator[random.Random]:
        seconds, first = float(os.environ.get("FUZZ_SECONDS", "60")), int(os.environ.get("FUZZ_SEED", "0"))
        end, seed = time.monotonic() + seconds, first
        while seed == first or time.monotonic() < end:
            print(f"attempt FUZZ_SEED={seed}")  # pytest shows it where the attempt fails
            yield random.Random(seed)
            seed += 1
        record_property("attempts", seed - first)

    return drawn
