"""Policies of others: some that act, and some that misbehave at step 20, each in its own way."""

import json
import os
import random
import sys
import time
from pathlib import Path


class Quiet:
    rule = "nothing"

    def reset(self, seed):
        self.seed = seed

    def act(self, seen):
        return self.at_20(seen) if seen.step == 20 else "continue"

    def at_20(self, seen):
        return "continue"


class ByHistory:
    """What it does depends on every number that it was shown."""

    name = "by_history"

    def reset(self, seed):
        self.asked, self.gone_back, self.causes = False, False, ()

    def act(self, seen):
        if seen.step == 20 and not self.asked:
            self.asked = True
            return "ask_signal=layer_update_ratio"
        if seen.answer or seen.step < 20:
            return "continue"
        if seen.step == 40 and not self.gone_back:
            self.gone_back = True
            return "roll_back=20"
        # Exact: repr of a float is all of it.
        text = json.dumps([sorted((k, str(v)) for k, v in dict(row).items() if v is not None) for row in seen.history])
        known = {k for row in seen.history[-1:] for k, v in dict(row).items() if v is not None}
        self.causes = ("mask_missing",) if "layer_update_ratio" in known else ()
        return f"rate={0.5 + random.Random(text).random()!r}"


class WithAction(Quiet):
    """Answers with objects that have a kind and a value, as actions of the package."""

    def at_20(self, seen):
        class Kind:
            value = "rate"

        class Action:
            kind, value = Kind, 0.123456789

        return Action


class Unknown(Quiet):
    def at_20(self, seen):
        return "explode"


class OutOfRange(Quiet):
    def at_20(self, seen):
        return "rate=99"


class Nothing(Quiet):
    def at_20(self, seen):
        return None


class Long(Quiet):
    def at_20(self, seen):
        return "x" * 1000


class Endless(Quiet):
    def at_20(self, seen):
        print("x" * (64 * 1024))
        return "continue"


class Late(Quiet):
    def at_20(self, seen):
        time.sleep(1000.0)


class Raises(Quiet):
    def at_20(self, seen):
        raise ValueError("no idea")


class Ends(Quiet):
    def at_20(self, seen):
        os._exit(3)


class Hoards(Quiet):
    def at_20(self, seen):
        self.held = bytearray(b"1") * (400 * 2**20)
        time.sleep(1000.0)


class StrangeCause(Quiet):
    def at_20(self, seen):
        self.causes = ("gremlins",)
        return "rate=0.5"


class Curious(Quiet):
    """Raises what it can find out of the run: its environment, its folder, and what it was given."""

    def at_20(self, seen):
        names = sorted(name for name in os.environ if "TRAINWRECK" in name or "PYTEST" in name)
        found = {
            "argv": sys.argv[1:],
            "environment": names,
            "folder": list(map(str, Path().iterdir())),
            "seen": sorted(vars(seen)),
        }
        raise ValueError(json.dumps(found))


class OneLife(Quiet):
    """Fails where it is shown a second episode by the same process, or finds a file of the first."""

    lives = 0

    def reset(self, seed):
        OneLife.lives += 1
        if OneLife.lives > 1 or Path("mark").exists():
            raise ValueError("not alone")
        Path("mark").touch()


class NoAct:
    def reset(self, seed):
        pass
