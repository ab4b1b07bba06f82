"""Detectors that alarm at step 3 and do something at step 7, each in its own way; `Good` does nothing then."""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from neighbour import LIMIT

from trainwreck.evaluation.detectors.base import Detector, Verdict
from trainwreck.evaluation.errors import InputError


class Good(Detector):
    rule = "step 3"
    signals = ("loss",)

    def reset(self, context):
        self.context = context

    def update(self, row):
        if row["step"] == 7:
            return self.act(row)
        return Verdict(float(row["step"]), row["step"] == LIMIT)

    def act(self, row):
        return False


class Raises(Good):
    def act(self, row):
        raise ValueError("first\nsecond")


class RaisesOurs(Good):
    def act(self, row):
        raise InputError("no such threshold")


class Trickles(Good):
    """Says to the harness that it goes on, while it is stuck."""

    def act(self, row):
        answers = sys._getframe(2).f_locals["answer"].__closure__[0].cell_contents
        while True:
            os.write(answers, b" ")
            time.sleep(0.01)


class Forges(Good):
    """Answers for rows that it has not seen."""

    def act(self, row):
        answer, step = sys._getframe(2).f_locals["answer"], row["step"]
        while True:
            answer(json.dumps({"type": "verdict", "step": step, "score": 0.0}))
            step += 1


class Quits(Good):
    def act(self, row):
        sys.exit(3)


class Dies(Good):
    def act(self, row):
        print("farewell \x1b[31m")
        os._exit(3)


class Faults(Good):
    def act(self, row):
        os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(Good):
    def act(self, row):
        print("what now", file=sys.stderr)
        while True:
            pass


class Hoards(Good):
    def act(self, row):
        self.held = []
        while True:
            self.held.append(np.ones(2**20))


class WantsTooMuch(Good):
    def act(self, row):
        return bool(np.ones(2**37).any())


class Floods(Good):
    def act(self, row):
        while True:
            print("x" * 1000)


class FloodsErrors(Good):
    def act(self, row):
        while True:
            sys.stderr.write("x" * 1000)


class ReadsInput(Good):
    def act(self, row):
        return bool(sys.stdin.read())


class Prints(Good):
    def update(self, row):
        print("row", row["step"])
        return super().update(row)


class Text(Good):
    def act(self, row):
        return "yes"


class NotANumber(Good):
    def act(self, row):
        return float("nan")


class Huge(Good):
    def act(self, row):
        return 10**400


class AlarmOfOne(Good):
    def act(self, row):
        return Verdict(1.0, 1)


class StrangeCause(Good):
    def act(self, row):
        return Verdict(1.0, True, ("hi_lr",))


class KnownCause(Good):
    def update(self, row):
        return Verdict(1.0, row["step"] == 7, ("high_lr", "unknown"))


class ManyCauses(Good):
    def act(self, row):
        return Verdict(1.0, True, tuple(f"cause_{i}" for i in range(1000)))


class ResetFails(Good):
    def reset(self, context):
        raise OSError("no weights")


class Knows(Good):
    """Says what it can find out of where it is."""

    def act(self, row):
        found = {
            "environment": dict(os.environ),
            "arguments": Path("/proc/self/cmdline").read_text().split("\0"),
            "folder": str(Path.cwd()),
            "inside": [str(path) for path in Path.cwd().iterdir()],
            "files": [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()],
            "context": self.context,
        }
        raise RuntimeError(json.dumps(found))


class Echo(Detector):
    """A score for everything that a row holds, in its order."""

    def update(self, row):
        return float(int(hashlib.md5(repr(list(row.items())).encode()).hexdigest()[:12], 16))


class Looks(Detector):
    """A score for the signals that it asks for, one by one."""

    def update(self, row):
        seen = [row.get("loss"), row["head_entropy"], row["validation_loss"], row.get("mine"), "lr" in row, "x" in row]
        return float(int(hashlib.md5(repr(seen).encode()).hexdigest()[:12], 16))
