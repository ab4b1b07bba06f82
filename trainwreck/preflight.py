"""`trainwreck preflight`: the checks before a run, on anyone's model and batch or on the catalogue's."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.options import as_json, as_severity, as_size, settings, severity_option, size_option
from trainwreck.tables import print_json, print_table


@click.command()
@click.argument("target", required=False)
@settings
@click.option("--check", "names", multiple=True, help="Only this one. May be repeated.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@severity_option
@size_option
@click.option("--all", "everything", is_flag=True, help="Every scenario and its twin, in place of a target.")
@click.option("--record", is_flag=True, help="With --all: write the table under results/preflight/.")
@as_json
def preflight(
    target: str | None,
    overrides: Sequence[str],
    names: Sequence[str],
    seed: int,
    severity: str | None,
    size: str | None,
    everything: bool,
    record: bool,
    as_json: bool,
) -> None:
    """The checks before a run: on your own model and batch, or on a scenario.

    TARGET is package.module:function or file.py:function, a function without arguments that returns
    (model, inputs, targets): any torch.nn.Module that returns logits, one batch, class ids. For a loss, a
    training step, an optimizer or a vocabulary of your own it returns trainwreck.Preflight(model, inputs,
    targets, loss=..., step=..., optimizer=..., vocab_size=..., ignore_index=...).

    TARGET may also be the id of a scenario: its faulty run and its twin are looked at before the first
    step under the fault. Exit code 0: every check passes or does not apply; 1: one fails; 2: bad input.
    With --all: 1 where one fails on a twin.
    """
    if everything == (target is not None):
        raise InputError("target: one of TARGET and --all; allowed: file.py:function, package.module:function, an id")
    if record and not everything:
        raise InputError("--record: is not allowed here; allowed: with --all")
    if everything:
        return _on_all(seed, record, as_json)
    assert target is not None, "just checked"
    if ":" in target:
        if overrides or severity or size:
            raise InputError(f"target: {target!r} takes no settings; allowed: settings of a scenario")
        return _on_code(target, names, seed, as_json)
    from trainwreck.scenarios.preflight.table import examine

    found = examine(
        target, seed=seed, severity=as_severity(severity), size=as_size(size), overrides=overrides, names=names
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print(f"{target}, seed {seed}, before step {found.step}; faulty run:")
        _print(found.faulty)
        print("\ntwin:")
        _print(found.twin)
    if found.failed("faulty"):
        sys.exit(1)


def _on_code(target: str, names: Sequence[str], seed: int, as_json: bool) -> None:
    from trainwreck.scenarios.preflight import Verdict, from_factory
    from trainwreck.scenarios.preflight import preflight as ask

    subject = from_factory(target, seed)
    with progress("preflight", quiet=as_json) as tick:
        found = ask(subject, names, seed=seed, tick=tick)
    if as_json:
        print_json([finding.to_dict() for finding in found])
    else:
        _print(found)
    if any(finding.verdict is Verdict.FAIL for finding in found):
        sys.exit(1)


def _on_all(seed: int, record: bool, as_json: bool) -> None:
    from trainwreck.scenarios.preflight.table import examine_all, markdown
    from trainwreck.scenarios.preflight.table import record as write
    from trainwreck.scenarios.spec.registry import scenarios

    with progress("preflight", quiet=as_json) as tick:
        found = examine_all(list(scenarios()), seed=seed, tick=tick)
    if record:
        write(found)
    if as_json:
        print_json([one.to_dict() for one in found])
    else:
        print(markdown(found), end="")
    if any(one.failed("twin") for one in found):
        sys.exit(1)


def _print(found: Sequence[Any]) -> None:
    print_table(("check", "verdict", "evidence"), [(f.check, f.verdict.value, f.evidence) for f in found])
