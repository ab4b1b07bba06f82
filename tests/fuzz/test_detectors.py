"""Hostile detectors, drawn at random, beside an honest one: it scores as it does alone, and each has a visible status.

A detector is put together from things that it does: to answers, to processes and files, to the harness; when it is
loaded, made, begun or shown a row.
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from trainwreck.evaluation.constants import CALIBRATION, TUNING_SPLITS
from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.detectors.base import LARGEST_SCORE
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.ranking import beside
from trainwreck.evaluation.leaderboard.run import score_all
from trainwreck.evaluation.replay.alarms import FAILURES_OF_A_DETECTOR, OK
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.usage import tree

pytestmark = pytest.mark.fuzz

HONEST = "class D:\n    def reset(self, context): pass\n    def update(self, row): return row['loss'] > 5\n"
HEAD = """
import ctypes, gc, json, math, multiprocessing, os, resource, signal, socket, subprocess, sys, threading, time
from pathlib import Path
from trainwreck import Verdict

PAUSE = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
RUNS = []

def nested(depth, last=0):
    found = last
    for _ in range(depth): found = [found]
    return found

class Odd(Exception):
    def __str__(self): raise self
"""
# What it does, as statements; `row` is there where it is shown one. `return` gives an answer.
ACTS = [
    "raise ValueError('\\ud800' * {n})",
    "raise Odd",
    "raise KeyboardInterrupt",
    "raise RecursionError('x' * 10**6)",
    "sys.exit({n})",
    "os._exit({n} % 256)",
    "os.abort()",
    "os.kill(os.getpid(), {n} % 65)",
    "os.killpg(0, signal.SIGKILL)",
    "os.kill(os.getppid(), signal.SIGSTOP)",
    "os.kill(os.getppid(), signal.SIGTERM)",
    "[os.close(i) for i in range(3, 64)]",
    "os.close(1)",
    "os.closerange(0, 64)",
    "[os.write(i, b'[' * {n} + b'\\n') for i in range(3, 9) if os.fstat(i)]",
    '[os.write(i, b\'{{"type":"verdict","step":1,"score":1e999}}\\n\') for i in range(3, 9) if os.fstat(i)]',
    "print('\\x1b[2J\\x1b]0;t\\x07' * {n})",
    "sys.stderr.write('\\ud800')",
    "print(b'\\xff' * 10**7)",
    "time.sleep({n} / 2000)",
    "time.sleep(10**6)",
    "while True: pass",
    "os.fork() or time.sleep(10**6)",
    "[subprocess.Popen(PAUSE, start_new_session=True) for _ in range({n})]",
    "os.fork() or (os.setsid(), os.fork() or time.sleep(10**6))",
    "threading.Thread(target=lambda: [print('x' * 10**6) for _ in range(10**6)]).start()",
    "threading.Thread(target=time.sleep, args=(10**6,)).start()",
    "self.held = [bytearray(2**20) for _ in range({n} * 8)]",
    "self.held = bytearray(2**45)",
    "Path('f').write_bytes(bytes(2**20 * {n}))",
    "[Path(str(i)).touch() for i in range({n} * 200)]",
    "[(os.mkdir('d'), os.chdir('d')) for _ in range({n} * 20)]",
    "os.symlink('/', 'root'); os.mkfifo('fifo'); os.chmod('.', 0)",
    "os.rmdir(os.getcwd())",
    "Path(__file__).write_text('')",
    "Path('/', 'tmp', 'trainwreck-fuzz').write_text('x')",
    "[p.write_text('x') for p in Path('/proc').glob('*/oom_score_adj')]",
    "[os.kill(int(p.name), signal.SIGUSR1) for p in Path('/proc').glob('[0-9]*') if p.name != str(os.getpid())]",
    "socket.create_connection(('127.0.0.1', 22), 1)",
    "ctypes.string_at(0)",
    "ctypes.CDLL(None).unshare(0x10000000)",
    "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "sys.setrecursionlimit(10**9); (f := lambda: f())()",
    "signal.setitimer(signal.ITIMER_REAL, 0.01)",
    "gc.disable(); sys.settrace(lambda *a: 1 / 0)",
    "time.perf_counter_ns = time.monotonic = lambda: -10**30",
    "json.loads = json.dumps = None",
    "sys.modules.clear()",
    "type(self).name = 'zclip'; type(self).update = lambda self, row: True",
    "return math.nan",
    "return math.inf",
    "return -10**400",
    "return 'yes' * {n}",
    "return nested({n} * 1000)",
    "return Verdict(1.0, True, nested({n} * 100))",
    "return Verdict(1.0, True, ('\\ud800\\x1b[31m',))",
    "return Verdict(1.0, True, tuple(map(str, range({n} * 1000))))",
    "return Verdict(1.0, 1, None)",
    "return Verdict(True, 'x', 'high_lr')",
    "return Verdict(float('1e308') * {n}, True, ('high_lr', 'high_lr'))",
    "return Verdict(sys.float_info.max, True, ('unknown',))",
    "frame = sys._getframe()\n        while frame: self.seen, frame = dict(frame.f_locals), frame.f_back",
    "return any(isinstance(o, dict) and len(o) > 99 for o in gc.get_objects())",
    "RUNS.append(dict(row) if 'row' in dir() else 0)",
    "row.clear(); row['step'] = 10**30",
    "pass",
]
COMMANDS = [
    """import sys
for line in sys.stdin: print("[" * SIZE * 100, flush=True)
""",
    """import sys
for line in sys.stdin: print('{"type":"failed","reason":"' + "[" * 4000 + '\\\\ud800"}', flush=True)
""",
    """import sys
while True: sys.stdout.write("x" * 10**6)
""",
    """import sys
print('{"type":"hello","version":1,"rule":"\\\\ud800\\\\u001b[31m"}', flush=True)
for line in sys.stdin: print('{"type":"ready"}', flush=True)
""",
    """import json, sys
for line in sys.stdin:
    question = json.loads(line)
    answer = {"type": "ready"}
    if question["type"] == "hello": answer = {"type": "hello", "version": 1}
    if question["type"] == "row":
        deep = "[" * SIZE + "]" * SIZE
        print('{"type":"verdict","step":%d,"score":1,"causes":[%s]}' % (question["row"]["step"], deep), flush=True)
        continue
    print(json.dumps(answer), flush=True)
""",
]


def drawn(draw: random.Random) -> str:
    """The source of a class D that does up to three things, each in some place."""
    places: dict[str, list[str]] = {name: [] for name in ("module", "class", "init", "reset", "update")}
    for _ in range(draw.randint(1, 3)):
        act = draw.choice(ACTS).format(n=draw.choice([1, 3, 30, 100, 300]))
        weights = (
            [0, 0, 1, 2, 8] if act.startswith(("return", "self.", "row", "type(self)", "frame")) else [1, 1, 1, 2, 8]
        )
        places[draw.choices(list(places), weights)[0]].append(act)
    when = draw.choice(["True", "row['step'] == 7", "row['loss'] > 5", "len(RUNS) > 3"])
    lines = [
        HEAD,
        *places["module"],
        "class D:",
        f"    rule = {draw.choice(['', 'r', chr(0xD800), chr(27) + '[2J'])!r}",
    ]
    lines += [f"    {act}" for act in places["class"]]
    for name, words in (("__init__", "self"), ("reset", "self, context"), ("update", "self, row")):
        acts = places["init" if name == "__init__" else name]
        lines.append(f"    def {name}({words}):")
        if name == "update":
            lines += ["        RUNS.append(0)", f"        if not ({when}): return row['loss'] > 5"]
        lines += [f"        {act}" for act in acts] or ["        pass"]
    return "\n".join(lines) + "\n"


def facts(card: Any) -> str:
    """A scorecard without times."""
    found = card.to_dict(scores=True)
    for each in (found["cost"], *found["alarms"]):
        each["update_us"] = 0
    return json.dumps(found, sort_keys=True)


@pytest.fixture
def data() -> DataSet:
    """A few runs of the sample: of two scenarios with their twins, and to calibrate on."""
    whole = load(sample())
    runs, measured = whole.runs, whole.runs[~whole.runs["split"].isin(TUNING_SPLITS)]
    kept = [runs[runs["split"] == CALIBRATION][:3]]
    kept += [measured[measured["kind"] == kind][:2] for kind in ("failing", "healthy")]
    return DataSet(whole.path, whole.manifest, pd.concat(kept))


def test_others_score_as_they_do_alone(
    attempts: Any, data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "honest.py").write_text(HONEST)
    names = [f"{tmp_path / 'honest.py'}:D", "any_zscore"]
    alone = [facts(card) for card in score_all(data, names)]
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    limits = Limits(row_seconds=2.0, start_seconds=20.0, minutes=0.2, memory_mb=400.0, disk_mb=20.0, output_kb=64.0)
    loaded = 0
    for draw in attempts():
        folder = tmp_path / "entries"
        folder.mkdir(exist_ok=True)
        if draw.random() < 0.1:
            file = folder / "command.py"
            file.write_text(draw.choice(COMMANDS).replace("SIZE", draw.choice(["1", "300", "3000", "100000"])))
            hostile = f"cmd:python3 {file}"
        else:
            file = folder / draw.choice(["honest.py", "zclip.py", "a\x1b[31m.py"])
            file.write_text(source := drawn(draw), errors="surrogatepass")
            print(source.removeprefix(HEAD))
            hostile = f"{file}:D"
        entries = [names[0], hostile, names[1]]
        refused, cards = "", []
        try:
            cards = score_all(data, entries, limits=limits, twins_apart=draw.random() < 0.3)
        except InputError as error:  # it does not load
            refused = str(error)
        assert refused.isprintable()
        if cards:
            loaded += 1
            assert [facts(cards[0]), facts(cards[2])] == alone
            seen = cards[1]
            assert len({card.detector for card in cards}) == 3
            assert set(seen.statuses) <= {OK, *FAILURES_OF_A_DETECTOR}
            assert sum(seen.statuses.values()) == len(cards[0].alarms)
            assert all(alarms.status.isprintable() for alarms in seen.alarms)
            assert all(line.isprintable() for line in seen.text().splitlines())
            assert all(abs(score) <= LARGEST_SCORE * 1e9 for alarms in seen.alarms for score in alarms.scores)
            json.dumps(seen.to_dict(scores=True)).encode("utf-8")
            assert len(beside(cards, cards[0].detector)) in (1, 2)
        assert len(tree(os.getpid())) == 1, "a process is left"
        assert list(temporary.iterdir()) == [], "a folder is left"
        file.unlink(missing_ok=True)
    assert loaded or os.environ.get("FUZZ_SECONDS", "60") < "9"
