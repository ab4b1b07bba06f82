"""What a fault changes in the plain program, as lines that go and lines that come.

    - c.diagonal = 0
    + c.diagonal = 1
      mask = -1e30 * torch.ones(t, t).triu(c.diagonal + 1) - 1e30 * apart.float()

Settings come first, each with the lines that use it, then the lines of the training loop, then what they call. All but
the settings are lines of the exported program, verbatim.
"""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.syntax import value
from trainwreck.scenarios.reproducers.text import text as program_text

GOES, COMES, STAYS = "- ", "+ ", "  "
OPPOSITE = {GOES: COMES, COMES: GOES, STAYS: STAYS}
MOST_USES = 3  # lines that use a changed setting, of each
LOOP = "def train("
ONCE = "if fault and step == ONSET:  # THE FAULT"  # a state is edited at one step
# Where a fault acts in the training loop, and how the ordinary line there begins.
ORDINARY = {
    "state": "trained = state[",  # which follows
    "batch": "batch = ",
    "rate": "rate = ",
    "parametrization": "parametrization = ",
    "clock": "taken = ",
    "log": "rows.append(row)",
}


def lines(id: str, text: str = "") -> list[str]:
    """The change of a scenario's fault, at seed 0 and the default severity; empty where no line changes.

    Each line has its sign, `- `, `+ ` or two spaces; an empty one is between parts. text: of the scenario's program,
    where it is made already. NotPlainError where there is no plain program.
    """
    program = Program(id)
    made = program.made("fault")
    constants, functions = dict(program.harvest.constants), dict(program.harvest.functions)
    whole = (text or program_text(program)).splitlines()
    parts = [list(_settings(program, whole))]
    for place in ORDINARY:
        comes = [line for line in made.get(place, ()) if line in map(str.strip, whole)]
        if comes:
            parts.append(list(_in_the_loop(whole, place, comes)))
    parts += _called(constants, functions, [line for part in parts for line in part])
    found = [line for part in parts if part for line in [*part, ""]]
    return found[:-1]


def _settings(program: Program, whole: list[str]) -> Iterator[str]:
    """Settings that change, and the lines that use them."""
    healthy, faulty = program.told["healthy"], program.told["fault"]
    readers = {name: _reading(whole, name) for name in program.differing("fault")}
    changed = {name: places for name, places in readers.items() if places}
    yield from (f"{GOES}c.{name} = {value(name, healthy[name])}" for name in changed)
    yield from (f"{COMES}c.{name} = {value(name, faulty[name])}" for name in changed)
    signs: dict[int, str] = {}
    for name, places in changed.items():
        for place in places[:MOST_USES]:
            signs.setdefault(place, STAYS)
            if whole[place].lstrip().startswith("if "):
                signs |= _branch(whole, place, _truth(whole[place], name, healthy, faulty))
    margin = 0
    for place, sign in sorted(signs.items()):
        indent = _indent(whole[place])
        if place - 1 not in signs or indent < margin:
            margin = indent
        yield sign + whole[place][margin:]


def _reading(whole: list[str], name: str) -> list[int]:
    """Where the program reads a setting."""
    reads = re.compile(rf"\b(?:c|setup)\.{name}\b(?! = )")
    return [place for place, line in enumerate(whole) if reads.search(line)]


def _truth(line: str, name: str, healthy: dict[str, Any], faulty: dict[str, Any]) -> str:
    """Whether the block under a condition comes, goes or stays. A condition on more than settings hangs on this one."""
    condition = line.strip().removeprefix("if ").partition(":  #")[0].removesuffix(":")
    found = []
    for values in (healthy, faulty):
        c = SimpleNamespace(**values)
        try:
            found.append(bool(eval(condition, {}, {"c": c, "setup": c})))
        except NameError:
            found.append(bool(values[name]))
    return {(False, True): COMES, (True, False): GOES}.get((found[0], found[1]), STAYS)


def _branch(whole: list[str], place: int, sign: str) -> dict[int, str]:
    """The lines of a block that comes or goes, and of what it is in place of: line number to sign."""
    if sign == STAYS:
        return {}
    indent, end = _indent(whole[place]), place + 1
    while _indent(whole[end]) > indent:
        end += 1
    signs = dict.fromkeys(range(place + 1, end), sign)
    before, first, last = whole[place - 1], whole[place + 1], whole[end - 1]
    target, _, given = first.partition(" = ")
    if last.lstrip().startswith("return "):
        other = next(i for i in range(end, len(whole)) if re.match(rf" {{{indent}}}return ", whole[i]))
        signs[other] = OPPOSITE[sign]
    elif _assigns(before, target.strip()) and _indent(before) == indent and target.strip() not in given:
        signs[place - 1] = OPPOSITE[sign]
    return signs


def _in_the_loop(whole: list[str], place: str, comes: list[str]) -> Iterator[str]:
    """The ordinary line, which goes where the new one does not use its value, and the lines that come."""
    loop = whole.index(next(line for line in whole if line.startswith(LOOP)))
    ordinary = next(s for s in map(str.strip, whole[loop:]) if s.startswith(ORDINARY[place]))
    name = ordinary.partition(" = ")[0]
    if place == "state":
        yield COMES + ONCE
        yield from (f"{COMES}    {line}" for line in comes)
        yield STAYS + ordinary
        return
    anew = _assigns(comes[0], name) and not re.search(rf"\b{name}\b", comes[0].partition(" = ")[2])
    yield (GOES if anew else STAYS) + ordinary
    yield from (COMES + line for line in comes)


def _called(constants: dict[str, str], functions: dict[str, str], shown: list[str]) -> list[list[str]]:
    """Those constants and functions of the fault that the lines use, in the order of the program."""
    own = {name: f"{name} = {text}" for name, text in constants.items()} | functions
    used: set[str] = set()
    text = "\n".join(shown)
    while new := {name for name in own if name not in used and re.search(rf"\b{name}\b", text)}:
        used |= new
        text = "\n".join(own[name] for name in new)
    found = [[COMES + own[name] for name in constants if name in used]]
    for name in functions:
        if name in used:
            found.append([COMES + line for line in own[name].splitlines() if line.strip()])
    return found


def _assigns(line: str, name: str) -> bool:
    return line.strip().startswith(f"{name} = ")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else 10**3
