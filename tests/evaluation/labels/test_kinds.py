"""Harm on the side that is declared, and the kind that harm and signature make."""

from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import BY_NAME, Harm, Outcome, RunKind
from trainwreck.evaluation.labels.kinds import counted, is_harmed, kind_of, moved, outcome_of, signature_held
from trainwreck.evaluation.labels.visible import Departure, View


@pytest.mark.parametrize(
    ("gap", "side", "outcome"),
    [
        (0.2, Harm.ABOVE, Outcome.DAMAGED),
        (-0.2, Harm.ABOVE, Outcome.RECOVERED),
        (0.2, Harm.BELOW, Outcome.RECOVERED),
        (-0.2, Harm.BELOW, Outcome.DAMAGED),
        (0.2, Harm.EITHER, Outcome.DAMAGED),
        (-0.2, Harm.EITHER, Outcome.DAMAGED),
        (0.125, Harm.ABOVE, Outcome.RECOVERED),
        (-0.125, Harm.BELOW, Outcome.RECOVERED),
        (None, Harm.ABOVE, Outcome.RECOVERED),
    ],
)
def test_a_run_is_damaged_on_the_side_of_the_harm(
    gap: float | None, side: Harm, outcome: Outcome, make_trace: Any
) -> None:
    assert outcome_of(make_trace("r"), gap, 0.125, side) == outcome.value


@pytest.mark.parametrize("side", Harm)
def test_a_loss_that_is_not_finite_is_harm_on_every_side(side: Harm, make_trace: Any) -> None:
    lost = make_trace("r", loss=np.where(np.arange(120) < 60, 2.0, np.nan))
    assert outcome_of(lost, None, 0.125, side) == Outcome.NON_FINITE.value


@pytest.mark.parametrize(
    ("harmed", "held", "kind"),
    [
        (True, True, RunKind.FAILING),
        (True, False, RunKind.FAILING),
        (True, None, RunKind.FAILING),
        (False, True, RunKind.LATENT),
        (False, None, RunKind.LATENT),  # of an older data set
        (False, False, RunKind.NOT_SHOWN),
        (None, False, RunKind.NOT_SHOWN),
        (None, True, RunKind.FAILING),
    ],
)
def test_kind_of_harm_and_signature(harmed: bool | None, held: bool | None, kind: RunKind) -> None:
    assert kind_of(harmed, held) is kind
    both = kind_of(harmed, held, compound=True)
    assert both is (RunKind.COMPOUND if kind is RunKind.FAILING else kind)


def test_harm_at_the_end_needs_no_healthy_runs_and_harm_for_a_time_does() -> None:
    assert is_harmed("damaged", None) is is_harmed("non_finite", False) is True
    assert [is_harmed("recovered", off) for off in (True, False, None)] == [True, False, None]


def departure(name: str, *, above: str, lower: str = "...", finite: str = "xxx") -> Departure:
    flags = (np.array([letter == "x" for letter in word]) for word in (above, finite, lower))
    return Departure(View(BY_NAME[name]), np.arange(3), *flags)


@pytest.mark.parametrize(
    ("found", "off"),
    [
        (departure("loss", above="..."), {}),
        (departure("loss", above=".x."), {Harm.ABOVE, Harm.EITHER}),
        (departure("loss", above=".x.", lower=".xx"), {Harm.BELOW, Harm.EITHER}),
        (departure("loss", above=".x.", lower="x.x"), {Harm.ABOVE, Harm.EITHER}),
        (departure("loss", above="..x", finite="xx."), {Harm.ABOVE, Harm.BELOW, Harm.EITHER}),
        (departure("validation_loss", above="x..", lower="xxx"), {Harm.BELOW, Harm.EITHER}),
        (departure("grad_norm", above="xxx"), {}),
    ],
)
def test_a_loss_off_the_twin_for_a_time_counts_on_the_side_of_the_harm(found: Departure, off: set[Harm]) -> None:
    assert {side for side in Harm if moved([found], side, False)} == set(off)
    for held in (True, None):  # a run that shows its signature, or may
        assert {side for side in Harm if moved([found], side, held)} == (set(Harm) if off else set())


def test_the_line_of_counts_has_every_kind_even_at_none() -> None:
    rows = [
        {"kind": "failing", "signatures": '{"a": true}'},
        {"kind": "failing", "signatures": '{"a": false}'},
        {"kind": "not shown", "signatures": '{"a": false}'},
        {"kind": "compound", "signatures": '{"a": false, "b": true}'},
        {"kind": "healthy", "signatures": "{}"},
        {"kind": "cured", "signatures": "{}"},
    ]
    assert counted(rows) == (
        "4 runs under a fault: 2 failing, 1 compound, 0 latent, 1 not shown; the signature holds in 2 of 4"
    )
    assert counted([{"kind": "failing"}]) == "1 run under a fault: 1 failing, 0 latent, 0 not shown"
    assert counted([]) == "0 runs under a fault: 0 failing, 0 latent, 0 not shown"


def test_a_signature_holds_where_that_of_any_cause_does() -> None:
    held = ['{"a": true, "b": false}', '{"a": false}', "{}", None]
    assert [signature_held({"signatures": text}) for text in held] == [True, False, None, None]
    assert signature_held({}) is None
