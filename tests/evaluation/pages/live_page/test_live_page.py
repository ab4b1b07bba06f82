"""Events of the page: blocks of telemetry, the end, and what ended it early; and the text around the curves."""

import json
import re
import urllib.request

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError, WorkerLostError
from trainwreck.evaluation.pages.figures import reduced
from trainwreck.evaluation.pages.live_page import serve
from trainwreck.evaluation.pages.live_page.page import coded, render
from trainwreck.evaluation.pages.live_page.recorded import block

NUMBERS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


def numbers(values):
    return [NUMBERS.get(value, value) for value in values]


def events(page):
    with urllib.request.urlopen(f"{page.address}events?since=0", timeout=60) as answer:
        return json.load(answer)["events"]


def test_blocks_together_are_the_trace(make_show, traces, cut):
    show, trace = make_show(), traces["faulty"]
    parts = [json.loads(json.dumps(block(show, "faulty", cut(trace, a, a + 16)), allow_nan=False)) for a in (0, 16, 32)]
    assert [part["step"] for part in parts] == [16, 32, 40]
    for name in ("loss", "grad_norm", "layer_grad_norm"):
        assert [step for part in parts for step in part["curves"][name][0]] == list(range(40))
        values = numbers([value for part in parts for value in part["curves"][name][1]])
        np.testing.assert_allclose(values, reduced(trace, name), rtol=1e-4)
    assert {"nan", "inf"} <= set(parts[2]["curves"]["loss"][1])
    rows = np.concatenate([np.array([numbers(row) for row in part["rows"][1]]) for part in parts], axis=1)
    np.testing.assert_allclose(rows, trace["layer_grad_norm"].T, rtol=1e-4)


def test_an_evaluation_is_shown_at_its_steps_even_if_it_is_nan(make_show, make_trace):
    trace = make_trace("f", seed=1, steps=20)
    trace.evaluated[:] = False
    trace.evaluated[[0, 10]] = True
    trace.signals["validation_loss"][:] = np.nan
    trace.signals["validation_loss"][0] = 3.0
    shown = block(make_show(telling="loss"), "faulty", trace)
    assert shown["curves"]["validation_loss"] == [[0, 10], [3.0, "nan"]]
    assert shown["rows"] is None


def test_a_run_without_a_second_held_out_set_has_no_loss_on_it(make_show, make_trace):
    trace = make_trace("f", seed=1, steps=20)
    trace.signals["fresh_loss"] = np.full(20, np.nan, np.float32)
    assert block(make_show(telling="fresh_loss"), "faulty", trace)["curves"]["fresh_loss"] == [[], []]


def test_the_end_is_told_once(make_show, facts):
    with serve(make_show()) as page:
        page.finish(facts)
        page.stop("interrupted")
        assert events(page) == [{"state": "finished", "facts": facts}]


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (KeyboardInterrupt(), "interrupted", ""),
        (InputError("steps: 0 is not allowed"), "failed", "steps: 0 is not allowed"),
        (WorkerLostError("rank 1 died\nsaid more"), "failed", "rank 1 died"),
        (ZeroDivisionError("by zero"), "failed", "ZeroDivisionError: by zero"),
        (MemoryError(), "failed", "MemoryError"),
    ],
)
def test_what_ends_it_early_is_told(error, state, reason, make_show):
    with pytest.raises(type(error)), serve(make_show()) as page:
        raise error
    assert json.loads(page.stream.since(0))["events"] == [{"state": state, "reason": reason}]


def test_the_text_is_the_scenario_s_and_no_markup(make_show):
    page = render(make_show(), "abc")
    assert len(re.findall("<script", page)) == 2
    assert "<img" not in page
    assert "A &lt;b&gt;line&lt;/b&gt;." in page
    assert "It <code>fails</code> &lt;/script&gt;" in page
    order = [page.index(f"<dt>{name}</dt>") for name in ("Failure", "What to look for", "Cure", "Mechanism")]
    assert order == sorted(order)
    assert '<b class="ink-s">onset</b>: step 20' in page
    assert coded("`a`: one\nline\n\n`b`: two") == "<code>a</code>: one\nline<br><code>b</code>: two"
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
