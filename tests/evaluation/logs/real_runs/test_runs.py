"""Labels against the telemetry: every contradiction is named, with its line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.imported import import_logs
from trainwreck.evaluation.logs.real_runs.runs import labelled

Labels = Callable[..., Path]


def test_runs_and_what_is_said_of_them(real: DataSet, labels: Labels) -> None:
    runs = {run.name: run for run in labelled(real, labels())}
    assert list(runs) == ["calm.csv", "wobble.csv", "noisy.csv", "broken.csv", "late.csv", "silent.csv", "strange.csv"]
    broken = runs["broken.csv"]
    assert (broken.outcome, broken.failure_step, broken.cause, broken.cluster) == ("failed", 300, "high_lr", "a")
    assert (broken.first_step, broken.last_step, broken.steps, broken.signals) == (0, 590, 591, {"loss"})
    assert runs["strange.csv"].cluster == "strange.csv"  # its own


def test_a_run_can_be_named_by_its_id(real: DataSet, labels: Labels) -> None:
    run_id = next(run_id for run_id in real.runs["run_id"] if run_id.startswith("calm"))
    assert labelled(real, labels(("calm.csv", run_id)))[0].name == "calm.csv"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("calm.csv,", "calm,", "said.csv, line 2: 'calm' is no run of the data set; did you mean 'calm.csv'?"),
        ("strange.csv,unknown,,,\n", "", "said.csv: no label for strange.csv; allowed: a row for every run"),
        ("wobble.csv,", "calm.csv,", "line 3: 'calm.csv' a second time"),
        ("failed,300,", "failed,600,", "line 5: failure_step 600 is not in the run; allowed: 0 to 590"),
        ("failed,300,", "failed,305,", "failure_step 305 is not logged; allowed: a step of the log, as 300 or 310"),
        ("failed,300,", "failed,,", "line 5: failed without a failure_step"),
        ("broken.csv,failed,300,", "broken.csv,healthy,,", "line 5: healthy, but the last loss is nan (step 590)"),
        ("healthy,,,b", "healthy,3,,b", "line 4: step 3 of a healthy run"),
        ("strange.csv,unknown", "strange.csv,fine", "line 8: status: 'fine' is not allowed"),
        ("failed,300,", "failed,soon,", "line 5: column 'step': 'soon' is not a number"),
        ("run,status", "what,status", "no column 'file' or 'run'"),
        ("step,cause", "step,failure_step", "columns 'failure_step' and 'step' are the same"),
    ],
)  # fmt: skip
def test_a_contradiction_is_named(real: DataSet, labels: Labels, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        labelled(real, labels((old, new)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_several_are_named_together(real: DataSet, labels: Labels) -> None:
    with pytest.raises(InputError) as error:
        labelled(real, labels(("failed,300,", "failed,600,"), ("failed,400,", "failed,,")))
    assert "line 5: failure_step 600" in str(error.value)
    assert "line 6: failed without" in str(error.value)


def test_a_run_under_two_names_is_told(real: DataSet, labels: Labels) -> None:
    run_id = next(run_id for run_id in real.runs["run_id"] if run_id.startswith("calm"))
    with pytest.raises(InputError, match=r"line 9: 'calm-.*' is labelled in .*line 2 already"):
        labelled(real, labels(("strange.csv,unknown,,,\n", f"strange.csv,unknown,,,\n{run_id},healthy,,,\n")))


def test_a_name_that_is_several_runs_is_told(tmp_path: Path) -> None:
    for folder, loss in (("a", 3), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.csv").write_text(f"step,loss\n1,{loss}\n", encoding="utf-8")
    import_logs([tmp_path / "a" / "run.csv", tmp_path / "b" / "run.csv"], tmp_path / "out")
    (tmp_path / "said.csv").write_text("run,status\nrun.csv,healthy\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"'run.csv' is several runs; allowed: one of run-\w+, run-\w+"):
        labelled(load(tmp_path / "out"), tmp_path / "said.csv")
