"""A command that alarms at step 3 and does something at step 7, as its first word says; standard library only."""

import json
import os
import sys

MODE = sys.argv[1]


def say(**answer):
    print(json.dumps(answer), flush=True)


def at_seven(step):
    if MODE == "exits":
        print("farewell", file=sys.stderr)
        sys.exit(4)
    if MODE == "hangs":
        while True:
            pass
    if MODE == "floods":
        while True:
            sys.stdout.write("x" * 1000)
    if MODE == "floods_errors":
        while True:
            sys.stderr.write("x" * 1000)
    if MODE == "hoards":
        held = []
        while True:
            held.append(b"x" * 2**20)
    if MODE == "closes":
        os.close(1)
        while True:
            pass
    if MODE == "twice":
        print(json.dumps({"type": "verdict", "step": step, "score": 0}))  # goes out with the next one, at once
    texts = {
        "text": "yes",
        "nan": '{"type": "verdict", "step": 7, "score": NaN}',
        "list": "[7, 1.0]",
        "deep": "[" * 100_000,
        "binary": "\udcff\udcfe",
        "digits": '{"type": "verdict", "step": 7, "score": ' + "9" * 5000 + "}",
    }
    if MODE in texts:
        sys.stdout.reconfigure(errors="surrogateescape")
        print(texts[MODE], flush=True)
        return
    answer = {"type": "verdict", "step": step, "score": 1.0}
    answer |= {
        "past": {"step": 6},
        "future": {"step": 8},
        "no_step": {"step": "7"},
        "huge": {"score": 10**400},
        "word": {"score": "1.0"},
        "true": {"score": True},
        "alarm_of_one": {"alarm": 1},
        "strange_cause": {"causes": ["hi_lr"]},
        "one_cause": {"causes": "high_lr"},
        "list_of_lists": {"causes": [["high_lr"]]},
        "misspelt": {"alram": True},
        "other_type": {"type": "verdikt"},
    }.get(MODE, {})
    if MODE == "says_so":
        answer = {"type": "failed", "reason": "out of ideas"}
    if MODE == "no_score":
        del answer["score"]
    say(**answer)


def main():
    signals = {"signals": sys.argv[2:]} if MODE == "signals" else {}
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "hello":
            say(type="hello", version=2 if MODE == "version" else 1, **signals)
        elif message["type"] == "reset":
            say(type="ready")
        else:
            row = message["row"]
            if MODE == "signals" and sorted(row) != sorted(["step", *sys.argv[2:]]):
                sys.exit(5)
            if row["step"] == 7:
                at_seven(row["step"])
            else:
                say(type="verdict", step=row["step"], score=row["step"], alarm=row["step"] == 3)


if MODE == "stops_at_once":
    sys.exit("no model")
main()
