"""The process in which a Python policy runs: `python -m trainwreck.scenarios.rescue.remote.runner WHAT`.

It answers the questions of `messages`. A policy never sees the pipes: its input is empty and what it prints goes to
the error stream.
"""

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.imports import import_file
from trainwreck.evaluation.replay.sandbox import messages
from trainwreck.evaluation.replay.sandbox.runner import Runner, main
from trainwreck.scenarios.rescue.observation import Observation

ABOUT = ("rule", "source")
_compact = json.JSONEncoder(separators=(",", ":")).encode


class PolicyRunner(Runner):
    """One policy, and an episode through it. what: `name`, "FILE.py:Class" or a plug-in's, and its `entry_point`."""

    _history: list[dict[str, Any]]

    def _reply(self, question: dict[str, Any]) -> None:
        kind = question["type"]
        reply: dict[str, Any]
        if kind == "hello":
            reply = {"type": "hello", "version": messages.VERSION} | self._load()
        elif kind == "reset":
            self._subject, self._history = self._make(), []
            self._subject.reset(question["seed"])
            reply = {"type": "ready"}
        elif kind == "observation":
            text = as_text(self._subject.act(self._seen(question)))
            reply = {"type": "action", "step": question["step"], "action": text} | self._causes()
        else:
            reply = {"type": "ended"} | self._causes()
        self._answer(_compact(reply))

    def _seen(self, question: dict[str, Any]) -> Observation:
        """The observation, with the rows that came before it and are still of the run."""
        new = messages.numbers(question["rows"])
        first = new[0]["step"] if new else question["step"]
        self._history = [row for row in self._history if row["step"] < first] + new
        facts = {name: question[name] for name in ("step", "planned", "spent", "rolled_back", "answer")}
        return Observation(rows=new, history=list(self._history), **facts)

    def _causes(self) -> dict[str, list[str]]:
        named = getattr(self._subject, "causes", ())
        texts = [str(one) for one in named] if isinstance(named, (tuple, list)) else [str(named)]
        return {"causes": texts} if named else {}

    def _load(self) -> dict[str, Any]:
        name = self._what["name"]
        if "entry_point" in self._what:
            value, group = self._what["entry_point"]
            self._make = as_policy(EntryPoint(name, value, group).load(), f"plug-in {name}", value.rpartition(":")[2])
        else:
            file, _, class_name = name.rpartition(":")
            sys.path.insert(0, str(Path(file).parent))  # a file's neighbours are found as if it were run as a script
            module = import_file(Path(file), "policy")
            self._make = as_policy(getattr(module, class_name, None), f"policy {file}", class_name)
        return {key: str(value) for key in ABOUT if (value := getattr(self._make, key, None))}


def as_policy(found: object, where: str, class_name: str) -> type[Any]:
    """The object of a class's name, if it is a policy; else an InputError that begins with `where`."""
    if found is None:
        raise InputError(f"{where}: has no class {class_name!r}")
    if not isinstance(found, type):
        raise InputError(f"{where}: {class_name} is not a class")
    missing = [method for method in ("reset", "act") if not callable(getattr(found, method, None))]
    if missing:
        raise InputError(f"{where}: {class_name} is not a policy, it has no {' and '.join(missing)}")
    return found


def as_text(chosen: object) -> str:
    """An action as it is written, with every digit of its value."""
    if isinstance(chosen, str):
        return chosen
    kind, value = getattr(getattr(chosen, "kind", None), "value", None), getattr(chosen, "value", None)
    if not isinstance(kind, str):
        return str(chosen)[:60]  # which is refused as an unknown action
    return kind if value is None else f"{kind}={value}"


if __name__ == "__main__":
    main(PolicyRunner)
