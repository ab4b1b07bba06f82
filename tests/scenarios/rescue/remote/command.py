"""A policy that is a command: answers as its word says at step 20, and `continue` before and after."""

import json
import sys

mode = sys.argv[1]
for line in sys.stdin:
    message = json.loads(line)
    kind, step = message["type"], message.get("step")
    answer = {
        "hello": {"type": "hello", "version": 1, "signals": ["loss"]},
        "reset": {"type": "ready"},
        "observation": {"type": "action", "step": step, "action": "continue"},
        "end": {"type": "ended", "causes": ["mask_missing"]},
    }[kind]
    if kind == "observation" and step == 20:
        if mode == "garbage":
            print("{not json", flush=True)
            continue
        if mode == "step":
            answer["step"] = 10
        elif mode == "key":
            answer["label"] = True
        elif mode == "long":
            answer["action"] = "x" * (2 * 1024 * 1024)
        elif mode == "failed":
            answer = {"type": "failed", "reason": "no weights"}
        elif mode == "acts":
            answer["action"] = (
                f"rate={0.5 if [sorted(row) for row in message['rows']] == [['loss', 'step']] * 10 else 2}"
            )
        elif mode == "stop":
            answer["action"] = "stop"
    lines = [json.dumps(answer)]
    if kind == "observation" and step == 20 and mode in ("twice", "stop"):
        lines.append(json.dumps({"type": "action", "step": step, "action": "rate=0.5"}))
    print("\n".join(lines), flush=True)  # at once, so that the second one is there before anything is asked again
