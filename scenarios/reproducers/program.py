"""What the plain program of a scenario has to say: its settings, and the lines of the fault and of the cure."""

from collections.abc import Sequence
from typing import Any

from trainwreck.scenarios.reproducers.source import Harvest
from trainwreck.scenarios.reproducers.syntax import value
from trainwreck.scenarios.reproducers.values import NotPlainError, told
from trainwreck.scenarios.spec import faults
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.planned import planned
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.spec.scenario import Severity

INDENT = " " * 8
STEP = {"fault": "ONSET", "cure": "CURED"}
PLACES = ("settings", "state", "batch", "rate", "parametrization", "clock", "log")  # of the loop


class Program:
    """The program of one scenario at a seed and severity. NotPlainError where there is none.

    overrides: settings in place of the scenario's own; None for those that it declares for its program.
    specs: the runs by role. told: settings of a healthy run, of one under the fault and of one under the cure, by short
    names.
    kept: steps whose state is used later.
    """

    def __init__(
        self, id: str, seed: int = 0, severity: Severity | None = None, overrides: Sequence[str] | None = None
    ) -> None:
        self.entry, self.seed = scenario(id), seed
        overrides = self.entry.program if overrides is None else overrides
        self.specs = {spec.role: spec for spec in family_of(id, [seed], severity=severity, overrides=overrides)}
        faulty, cured = self.specs[Role.FAULTY], self.specs.get(Role.CURED)
        self.base, self.severity, self.onset = faulty.setup, faulty.severity, faulty.onset or 0
        self.cured = None if cured is None else cured.cure_step
        self.changes = {"fault": self.entry.fault(faulty.knobs, self.base), "cure": []}
        now = told(faulty.job().segment(self.onset))
        self.told = {"healthy": told(Job("", seed, self.base).segment(0)), "fault": now, "cure": now}
        if cured is not None and self.cured is not None:
            self.changes["cure"] = self.entry.cure(faulty.knobs, self.base)
            self.told["cure"] = told(cured.job().segment(self.cured))
        self.harvest = Harvest(self.base, self.entry)
        self.kept: set[int] = set()
        self._plan()

    def _plan(self) -> None:
        """What every run has planned for mid-run: it is neither fault nor cure."""
        plan = planned(self.base, self.seed)
        self.planned = plan[0].step if plan else None
        self.grown, self.adapted = self.base.growth.rows > 0, self.base.adapters.rank > 0
        if len({at.step for at in plan}) > 1:
            raise NotPlainError("reproducer: growth and adapters in one run are not in the plain program")
        streams = [at.change for at in plan if isinstance(at.change, faults.Stream)]
        calls = [self.harvest.call(stream.edit, "batch", "step", "PLANNED", "SEED") for stream in streams]
        self.planned_batch = "".join(calls)
        if self.base.policy.begun:
            raise NotPlainError("reproducer: rewards from the first step on are not in the plain program")
        if self.base.preferences.begun:
            raise NotPlainError("reproducer: pairs from the first step on are not in the plain program")
        if self.planned is None:
            return
        before, now = self.told["healthy"], told(Job("", self.seed, self.base).segment(self.planned))
        for after in (self.told["fault"], self.told["cure"]):
            after.update({k: before[k] for k, v in now.items() if v != before[k] and after[k] == v})

    def places(self) -> dict[str, str]:
        """The lines that the fault and the cure put into the loop, by place."""
        found: dict[str, list[str]] = {name: [] for name in PLACES}
        for word in STEP:
            ends = " and not cure" if word == "fault" and faults.Undo() in self.changes["cure"] else ""
            only = {"settings": "", "state": f" and step == {STEP[word]}"}  # what is set again, or done once
            for place, made in self.made(word).items():
                _under(found[place], word + only.get(place, ends), made)
        return {f"at_{name}": "\n".join(text) for name, text in found.items()}

    def made(self, word: str) -> dict[str, list[str]]:
        """The lines of the fault or of the cure, by place; their functions and constants are then in `harvest`."""
        found = {"settings": [f"c.{k} = {value(k, v)}" for k, v in self.differing(word).items()]}
        for change in self.changes[word]:
            place, line = self._line(change, STEP[word])
            if line:
                found.setdefault(place, []).append(line)
            if change.resume:
                took = f"taken = {1 + faults.RESUME_STEPS} if step == {STEP[word]} else taken  # the resume"
                found.setdefault("clock", []).append(took)
        return found

    def differing(self, word: str) -> dict[str, Any]:
        """Settings of the plain program that the fault, or the cure on top of it, gives another value."""
        before = self.told["healthy" if word == "fault" else "fault"]
        return {k: v for k, v in self.told[word].items() if v != before[k]}

    def _line(self, change: faults.Change, first: str) -> tuple[str, str]:
        """Where a change is made, and the line that makes it; empty where its values say all."""
        harvest, since = self.harvest, "step" if first == "ONSET" and self.onset == 0 else f"step - {first}"
        if isinstance(change, faults.DataTransform):
            draw = f'generator(SEED, "fault/{change.stream}", step)'
            return "batch", f"batch = {harvest.call(change.transform, 'batch', since, draw)}"
        if isinstance(change, faults.Stream):
            return "batch", f"batch = {harvest.call(change.edit, 'batch', 'step', first, 'SEED')}"
        if isinstance(change, faults.Curve):
            return "rate", f"rate = {harvest.call(change.edit, 'rate', since, 'c')}"
        if isinstance(change, faults.SchedulePosition):
            return "rate", f"rate = learning_rate(c, {harvest.call(change.position, 'step', first)})"
        if isinstance(change, faults.Clock):
            return "clock", f"taken = {harvest.call(change.edit, 'taken', since)}"
        if isinstance(change, faults.LogEdit):
            made = harvest.call(change.edit, "row", "rows[:-1]", since)
            return "log", f'rows[-1] = {{**{made}, "validation_loss": row["validation_loss"]}}'
        if isinstance(change, faults.ParametrizationEdit):
            place = "parametrization"
            harvest.known.add(place)
            made = harvest.call(change.edit, place, "plan")
            return place, f"{place} = {made.replace('Parametrization()', 'Parametrization(trained)')}"
        if isinstance(change, faults.StateEdit):
            earlier = "None"
            if harvest.uses(change.edit, 1):
                step = change.needs(self.onset if first == "ONSET" else self.cured or 0)[0]
                self.kept.add(step)
                earlier = f"kept[{step}]"
            made = harvest.call(change.edit, "state", earlier)
            if made == "state":
                if self.base.distributed.ranks == 1:
                    return "state", ""
                return "state", "state = shared(state)  # all ranks go on from the first one's"
            return "state", f"state = {made}"
        return "", ""


def _under(found: list[str], condition: str, made: Sequence[str]) -> None:
    """Add lines that are run where a condition holds."""
    if made:
        until = ", until THE CURE" if condition.endswith("not cure") else ""
        found.append(f"{INDENT}if {condition}:  # THE {condition.split()[0].upper()}{until}")
        found += [f"{INDENT}    {line}" for line in made]
