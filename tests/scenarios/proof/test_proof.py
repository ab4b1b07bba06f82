"""The judge: proven where every share is reached, and unproven for each single reason. No training."""

import dataclasses
import json
import linecache
from pathlib import Path

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, write_runs, write_telemetry
from trainwreck.evaluation.dataset.schema import SIGNALS, Axis
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import write_json
from trainwreck.evaluation.labels.labelling import label_runs
from trainwreck.scenarios.datasets.generate import injected_facts
from trainwreck.scenarios.proof import verify
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.spec.run_spec import Role, Split
from trainwreck.scenarios.spec.scenario import Severity
from trainwreck.scenarios.training.telemetry import widths

SEEDS, STEPS = 8, 200
OVERRIDES = [f"steps={STEPS}"]
ONSET = scenario("mask_missing").onset_step(0, STEPS)  # of the first of the faulty runs


def healthy_trace(spec):
    """Curves that depend on the seed alone: a twin's are its faulty run's."""
    draw, width = np.random.default_rng(spec.seed), widths(spec.setup.model)
    signals = {}
    for signal in SIGNALS:
        shape = (STEPS,) if signal.axis is Axis.SCALAR else (STEPS, width[signal.axis])
        signals[signal.name] = (1 + 0.01 * draw.standard_normal(shape)).astype(np.float32)
    signals["loss"] += np.float32(2) * np.exp(-np.arange(STEPS, dtype=np.float32) / 20)
    signals["attention_mass_future"][:] = 0
    evaluated = np.arange(STEPS) % 25 == 0
    evaluated[-1] = True
    signals["validation_loss"] = np.where(evaluated, np.float32(1), np.float32(np.nan))
    return Trace(spec.run_id, signals, evaluated)


def leak(trace, start, stop=STEPS):
    """What a missing mask does: attention on the future, and a loss under the entropy."""
    trace["attention_mass_future"][start:stop] = 0.3
    trace["loss"][start:stop] -= 0.8
    trace["validation_loss"][start:stop] -= 0.8


def spike(trace, start):
    for name in ("loss", "grad_norm"):
        trace[name][start] *= 50


def mask_missing(spec, trace):
    if spec.role is not Role.TWIN:
        leak(trace, spec.onset, spec.cure_step or STEPS)


def single_spike(spec, trace):
    if spec.role is not Role.TWIN:
        spike(trace, spec.onset)


@pytest.fixture
def judged(tmp_path):
    """The proof of a scenario whose runs behave, but for what `spoil(spec, trace)` does to them."""

    def make(name, behave, spoil=lambda spec, trace: None, seeds=SEEDS):
        specs = verify.plan([name], SEEDS, overrides=OVERRIDES)
        traces = {}
        for spec in specs:
            traces[spec.run_id] = healthy_trace(spec)
            behave(spec, traces[spec.run_id])
            spoil(spec, traces[spec.run_id])
        rows = [injected_facts(spec, traces[spec.run_id], "telemetry/b.parquet") for spec in specs]
        write_telemetry(tmp_path, "telemetry/b.parquet", list(traces.values()))
        write_runs(tmp_path, label_runs(rows, traces.__getitem__))
        write_json(tmp_path / "bundles" / "b.json", {"seconds_per_run": 1.5})
        return verify.judge(name, None, DataSet.unlisted(tmp_path), seeds, overrides=OVERRIDES)

    return make


def on(role, seed, change):
    """A spoiler of one run."""
    return lambda spec, trace: change(spec, trace) if (spec.role, spec.seed) == (role, seed) else None


def bit(offset):
    """One unit in the last place of one signal, `offset` steps from the onset."""

    def change(spec, trace):
        values, step = trace["lr"], spec.onset + offset
        values[step] = np.nextafter(values[step], np.float32(np.inf))

    return change


def without_fault(spec, trace):
    trace.signals.update(healthy_trace(spec).signals)


def uncured(spec, trace):
    leak(trace, spec.cure_step)


def dead(spec, trace):
    trace["loss"][spec.cure_step :] = np.nan


def test_a_failure_that_does_all_it_says_is_proven(judged):
    found = judged("mask_missing", mask_missing)
    assert found.proven
    assert (found.signature_faulty, found.signature_twin, found.signature_healthy) == (1.0, 0.0, 0.0)
    assert (found.bitwise, found.cured, found.within_tolerance) == (True, 1.0, 0.0)
    assert (found.latent, found.non_finite, found.seconds, found.fooled) == (0, 0, 1.5, {})
    assert found.gap == pytest.approx(-0.8, rel=1e-6)
    assert found.delay == 0
    json.dumps(verify.to_rows([found]), allow_nan=False)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (on(Role.FAULTY, 0, without_fault), {"signature_faulty": 7 / 8, "latent": 1}),
        (on(Role.TWIN, SEEDS, lambda spec, trace: leak(trace, ONSET)), {"signature_healthy": 1 / 8}),
        (on(Role.TWIN, 0, lambda spec, trace: leak(trace, ONSET)), {"signature_twin": 1 / 8}),
        (on(Role.FAULTY, 3, bit(-1)), {"bitwise": False}),
        (on(Role.CURED, 2, uncured), {"cured": 7 / 8}),
        (on(Role.CURED, 2, dead), {"cured": 7 / 8}),
    ],
    ids=["signature on faulty", "signature on healthy", "signature on twin", "not bitwise", "not cured", "cure is NaN"],
)
def test_each_single_reason_is_enough_to_be_unproven(spoil, expected, judged):
    found = judged("mask_missing", mask_missing, spoil)
    assert {name: getattr(found, name) for name in expected} == expected
    assert not found.proven


def test_a_difference_from_the_onset_on_is_none(judged):
    assert judged("mask_missing", mask_missing, on(Role.FAULTY, 3, bit(0))).proven


def test_seven_seeds_prove_nothing(judged):
    found = judged("mask_missing", mask_missing, seeds=SEEDS - 1)
    assert found.signature_faulty == found.cured == 1.0
    assert not found.proven


def test_a_look_alike_that_fools_a_one_liner_is_proven(judged):
    found = judged("benign_single_spike", single_spike)
    assert found.proven
    assert found.fooled["grad_norm_zscore"] == 1.0
    assert found.fooled["nonfinite_loss"] == 0.0
    assert (found.within_tolerance, found.bitwise) == (1.0, True)
    assert found.signature_faulty is found.cured is None


def harmed(spec, trace):
    trace["validation_loss"][-1] += 0.2


def early(spec, trace):
    """Resembles a failure before the onset, as its twin does: the scenario is not the cause."""
    spike(trace, 60)


@pytest.mark.parametrize(
    ("behave", "spoil", "expected"),
    [
        (lambda spec, trace: None, lambda spec, trace: None, {"within_tolerance": 1.0, "bitwise": True}),
        (single_spike, early, {"within_tolerance": 1.0, "bitwise": True}),
        (single_spike, on(Role.FAULTY, 1, bit(-1)), {"within_tolerance": 1.0, "bitwise": False}),
        (single_spike, on(Role.FAULTY, 1, harmed), {"within_tolerance": 7 / 8, "bitwise": True}),
    ],
    ids=["fools nobody", "fooled before", "not bitwise", "harmed"],
)
def test_a_look_alike_is_unproven_for_each_single_reason(behave, spoil, expected, judged):
    found = judged("benign_single_spike", behave, spoil)
    assert {name: getattr(found, name) for name in expected} == expected
    assert not found.proven


@pytest.mark.parametrize(("spoil", "holds"), [(lambda spec, trace: None, True), (on(Role.FAULTY, 0, harmed), False)])
def test_one_run_of_a_look_alike_has_to_end_well_and_no_more(spoil, holds, judged):
    found = judged("benign_single_spike", lambda spec, trace: None, spoil, seeds=1)
    assert max(found.fooled.values()) == 0.0
    assert (found.holds, found.proven) == (holds, False)


def test_the_plan_has_every_severity_and_as_many_healthy_reseeds():
    specs = verify.plan(["high_lr"], 3, overrides=OVERRIDES)
    for role in (Role.FAULTY, Role.CURED):
        chosen = {(s.severity, s.seed) for s in specs if s.role is role}
        assert chosen == {(severity, seed) for severity in Severity for seed in range(3)}
    twins = {s.seed: s.split for s in specs if s.role is Role.TWIN}
    assert twins == {**dict.fromkeys(range(3), Split.TEST), **dict.fromkeys(range(3, 6), Split.CALIBRATION)}
    only = verify.plan(["high_lr"], 3, severity=Severity.CLEAR, overrides=OVERRIDES)
    assert {s.severity for s in only if s.role is Role.FAULTY} == {Severity.CLEAR}


def test_no_seeds_are_refused(tmp_path):
    with pytest.raises(InputError, match="seeds: 0 is not allowed; allowed: 1 or more"):
        verify.verify(["mask_missing"], tmp_path, seeds=0)


@pytest.fixture
def record(tmp_path, monkeypatch):
    """An empty record of proofs in place of the shipped one."""
    from trainwreck.scenarios.spec import proofs

    path = tmp_path / "proofs.json"
    monkeypatch.setattr(proofs, "path", lambda: Path(path))
    monkeypatch.setattr(proofs, "unproven", list)
    proofs.recorded.cache_clear()
    yield path
    proofs.recorded.cache_clear()


def test_a_recorded_proof_takes_the_place_of_the_older_one(judged, record, tmp_path):
    from trainwreck.scenarios.proof.record import enter
    from trainwreck.scenarios.spec.proofs import recorded

    good = judged("mask_missing", mask_missing)
    enter([good, dataclasses.replace(good, size="small")], tmp_path / "results")
    enter([dataclasses.replace(good, proven=False, cured=0.5)], tmp_path / "results")
    assert [(row["size"], row["proven"]) for row in recorded()] == [("micro", False), ("small", True)]
    table = [line for line in (tmp_path / "results" / "README.md").read_text("utf-8").splitlines() if line[:1] == "|"]
    assert len({line.count("|") for line in table}) == 1
    assert len(table) == 4
    assert "**no**" in table[2]
    assert "50%" in table[2]
    assert "**no**" not in table[3]
    assert json.loads((tmp_path / "results" / "environment.json").read_text("utf-8"))["packages"]


def test_fresh_seeds_are_the_second_half_of_a_proof(judged, record, tmp_path):
    from trainwreck.scenarios.proof.record import enter
    from trainwreck.scenarios.spec.proofs import recorded

    first = judged("mask_missing", mask_missing)
    second = dataclasses.replace(first, signature_faulty=7 / 8, proven=False)
    enter([first], tmp_path / "results")
    enter([dataclasses.replace(first, proven=False)], tmp_path / "results", fresh=77)
    assert [(row["proven"], row["fresh"]["first_seed"], row["seeds"]) for row in recorded()] == [(True, 77, 8)]
    line = (tmp_path / "results" / "README.md").read_text("utf-8").splitlines()[-1]
    assert "| yes | 8 + 8 | 100% + 100% [79%, 100%] | 0% + 0% [0%, 21%] |" in line
    enter([second], tmp_path / "results", fresh=78)  # 15 of 16: its honest rate
    assert [(row["proven"], row["fresh"]["first_seed"]) for row in recorded()] == [(True, 78)]
    assert "| yes | 8 + 8 | 100% + 88% [70%, 100%] |" in (tmp_path / "results" / "README.md").read_text("utf-8")
    enter([dataclasses.replace(second, signature_faulty=6 / 8)], tmp_path / "results", fresh=78)
    assert [(row["proven"], row["fresh"]["first_seed"]) for row in recorded()] == [(False, 78)]
    assert "| **no** | 8 + 8 | 100% + 75% [62%, 98%] |" in (tmp_path / "results" / "README.md").read_text("utf-8")
    enter([dataclasses.replace(second, holds=False)], tmp_path / "results")  # the first half has to hold by itself
    enter([dataclasses.replace(first, proven=False)], tmp_path / "results", fresh=78)
    assert [(row["proven"], row["fresh"]["signature_faulty"]) for row in recorded()] == [(False, 1.0)]
    enter([dataclasses.replace(first, signature_faulty=6 / 8)], tmp_path / "results", fresh=78)
    enter([first], tmp_path / "results")  # again, and nothing was touched
    assert [(row["proven"], row["fresh"]["first_seed"]) for row in recorded()] == [(False, 78)]


def test_halves_of_different_sizes_count_by_their_runs(judged):
    (row,) = verify.to_rows([judged("mask_missing", mask_missing)])
    both = verify.both_halves(row | {"signature_faulty": 7 / 8, "fresh": row | {"seeds": 24}})
    assert (both["seeds"], both["signature_faulty"], both["cured"], both["proven"]) == (32, 31 / 32, 1.0, True)
    both = verify.both_halves(row | {"fresh": row | {"seeds": 24, "signature_faulty": 22 / 24, "bitwise": False}})
    assert (both["signature_faulty"], both["bitwise"], both["proven"]) == (30 / 32, False, False)
    (row,) = verify.to_rows([judged("benign_single_spike", single_spike)])
    some, more = {"grad_norm_zscore": 2 / 8, "any_zscore": 0.0}, {"grad_norm_zscore": 16 / 24, "any_zscore": 0.25}
    both = verify.both_halves(row | {"fooled": some, "fresh": row | {"seeds": 24, "fooled": more}})
    assert (both["fooled"], both["proven"]) == ({"grad_norm_zscore": 18 / 32, "any_zscore": 6 / 32}, True)


@pytest.mark.parametrize("touched", ["predicate", "setup"])
def test_what_was_touched_loses_its_fresh_half(touched, judged, record, tmp_path, monkeypatch):
    from trainwreck.scenarios.proof.record import enter
    from trainwreck.scenarios.spec.proofs import recorded

    first = judged("mask_missing", mask_missing)
    enter([first], tmp_path / "results")
    enter([first], tmp_path / "results", fresh=77)
    if touched == "predicate":
        monkeypatch.setattr(verify, "predicate", lambda name: "another")
    else:
        first = dataclasses.replace(first, identity="another")
    enter([first], tmp_path / "results")
    assert ["fresh" in row for row in recorded()] == [False]


def test_a_second_half_needs_a_first_of_the_same_predicate(judged, record, tmp_path, monkeypatch):
    from trainwreck.scenarios.proof.record import enter

    found = judged("mask_missing", mask_missing)
    with pytest.raises(InputError, match="record: 'mask_missing' is not proven as it is now; allowed: seeds from 0"):
        enter([found], tmp_path / "results", fresh=77)
    assert not record.exists()
    enter([found], tmp_path / "results")
    before = record.read_text("utf-8")
    monkeypatch.setattr(verify, "predicate", lambda name: "another")
    with pytest.raises(InputError, match="record: 'mask_missing' is not proven as it is now"):
        enter([found], tmp_path / "results", fresh=77)
    assert record.read_text("utf-8") == before
    (row,) = json.loads(before)
    row["not_weaker"] = row.pop("predicate")
    record.write_text(json.dumps([row]), "utf-8")
    with pytest.raises(InputError, match="record: 'mask_missing' is not proven as it is now"):
        enter([found], tmp_path / "results", fresh=77)


def test_fresh_seeds_are_drawn_once_a_folder(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    drawn = [verify.fresh_seed(folder) for folder in folders]
    assert drawn == [verify.fresh_seed(folder) for folder in folders]
    assert len(set(drawn)) == 3
    assert min(drawn) >= verify.FIRST_FRESH


def signature_of(text):
    """A scenario with this signature, in a file that `inspect` can read."""
    lines = f"class Made:\n    has_signature = True\n\n    def signature(self, run, healthy, onset):\n        {text}\n"
    name = f"<made {text}>"
    linecache.cache[name] = (len(lines), None, lines.splitlines(True), name)
    space = {}
    exec(compile(lines, name, "exec"), space)
    return space["Made"]()


def test_a_predicate_is_its_numbers_and_not_its_words(monkeypatch):
    texts = ('return {"high": run > 3}', 'return {"over three": run > 3}', 'return {"high": run > 4}')
    found = []
    for text in texts:
        monkeypatch.setattr(verify, "scenario", lambda name, text=text: signature_of(text))
        found.append(verify.predicate("made"))
    assert found[0] == found[1] != found[2]


def test_no_recorded_predicate_was_touched_since_it_was_proven():
    from trainwreck.scenarios.spec.proofs import recorded

    touched = [
        row["scenario"]
        for row in recorded()
        for half in (row, row.get("fresh", {}))
        if half and half.get("predicate", half.get("not_weaker", "")) != verify.predicate(row["scenario"])
    ]
    assert not touched


def test_a_half_that_an_earlier_predicate_judged_has_a_mark(judged):
    from trainwreck.scenarios.proof.record import markdown

    (row,) = verify.to_rows([judged("mask_missing", mask_missing)])
    fresh = {"fresh": row | {"predicate": "now"}}
    marks = [
        markdown([row | more | fresh]).splitlines()[-1].split("|")[5].strip() for more in ({}, {"not_weaker": "now"})
    ]
    assert marks == ["8 + 8", "8* + 8"]


def row_of(**facts):
    facts = {"scenario": "a", "size": "micro", "severity": "", "overrides": [], "proven": True, "cured": 1.0} | facts
    return {"signature_faulty": 1.0, "fooled": {}, "latent": 0, "gap": 0.5, "first_signal": "loss"} | facts


def test_what_carries_over_stands_beside_what_holds_at_home():
    from trainwreck.scenarios.proof.record import carried

    text = ["data.source=text", "model.vocab_size=256"]
    rows = [
        row_of(),
        row_of(overrides=["steps=350"]),
        row_of(overrides=[*text, "steps=200"], proven=False, signature_faulty=0.25, first_signal="grad_norm"),
        row_of(size="small", gap=0.25, latent=7),
        row_of(scenario="b", size="deep", severity="clear"),
        row_of(scenario="b", severity="subtle", overrides=text),
    ]
    assert carried(rows[:2]) == ""
    page = carried(rows)
    assert "small 1 of 1, real text 0 of 1." in " ".join(page.split())
    held, lost = page.splitlines()[-2:]
    assert held == "| `a` | small | - | yes | 100% -> 100% | 100% -> 100% | 0 -> 7 | +0.500 -> +0.250 | loss |"
    assert lost.startswith("| `a` | real text, steps=200 | - | **no** | 100% -> 25% | 100% -> 100% |")
    assert lost.endswith("| loss -> grad_norm |")


def test_what_every_proof_at_small_has_is_said_once():
    from trainwreck.scenarios.proof.record import AS_TEXT, AT_SMALL, carried

    known = [*AS_TEXT, *AT_SMALL]
    settings = [[*known, "optimizer.lr=0.1"], known]
    rows = [row_of(size="small", overrides=o) for o in settings]
    page = carried([row_of(), *rows, row_of(overrides=[*AS_TEXT, "steps=160"])])
    where = [line.split("|")[2].strip() for line in page.splitlines()[-3:]]
    assert sorted(where) == ["real text at small", "real text at small, optimizer.lr=0.1", "real text, steps=160"]
    text = " ".join(page.split())
    assert all(word in text for word in known)


def test_a_scenario_counts_once_and_is_proven_at_whichever_strength_holds():
    from trainwreck.scenarios.proof.record import AS_TEXT, carried

    rows = [
        row_of(overrides=list(AS_TEXT), proven=False),
        row_of(overrides=[*AS_TEXT, "fault.factor=64"]),
        row_of(scenario="b", severity="subtle", overrides=list(AS_TEXT)),
        row_of(scenario="b", severity="clear", overrides=list(AS_TEXT), proven=False),
        row_of(scenario="c", overrides=list(AS_TEXT), proven=False),
    ]
    homes = [row_of(), *(row_of(scenario="b", severity=s) for s in ("subtle", "clear")), row_of(scenario="c")]
    page = " ".join(carried([*homes, *rows]).split())
    assert "Proven there too: real text 2 of 3." in page
    assert "| `a` | real text, fault.factor=64 | - | yes |" in page


def test_pilots_are_of_the_catalogue_and_not_proven_at_small():
    from trainwreck.scenarios.proof.record import pilots, sentence
    from trainwreck.scenarios.spec.proofs import recorded
    from trainwreck.scenarios.spec.registry import scenarios

    ids = [id for some in pilots()["held_back"].values() for id in some]
    assert len(ids) == len(set(ids))
    assert set(ids) <= set(scenarios())
    assert not set(ids) & {row["scenario"] for row in recorded() if row["size"] == "small"}
    assert all(f"`{id}`" in sentence(pilots()) for id in ids)


def test_the_committed_table_is_made_of_the_record():
    from trainwreck.scenarios.proof.record import HEAD, carried, markdown, missing
    from trainwreck.scenarios.spec.proofs import recorded, unproven

    page = Path(__file__).parents[3] / "results" / "proof" / "README.md"
    rows = recorded()
    assert page.read_text("utf-8") == HEAD + markdown(rows) + carried(rows) + missing(unproven())
