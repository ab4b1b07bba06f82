"""The callback in trainings of the real Transformers Trainer."""

from typing import Any

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.live.transformers import transformers_callback

pytestmark = [
    pytest.mark.monitors,
    pytest.mark.filterwarnings("default"),  # of the library and what it loads
]


def train(callback: Any, folder: Any, *, broken_from: int | None = None, steps: int = 12, **settings: Any) -> Any:
    """A linear model on noise for some steps; its loss is NaN from one of them on. Returns the Trainer."""
    import torch
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.calls = 0

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            loss = ((self.layer(x) - labels) ** 2).mean()
            if self.training:
                self.calls += 1
                if broken_from is not None and self.calls >= broken_from:
                    loss = loss * float("nan")
            return {"loss": loss}

    random = torch.Generator().manual_seed(0)
    examples = [{"x": torch.randn(4, generator=random), "labels": torch.zeros(1)} for _ in range(64)]
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=4,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        **({"logging_nan_inf_filter": False} | settings),
    )
    trainer = Trainer(Model(), arguments, train_dataset=examples, eval_dataset=examples[:8], callbacks=[callback])
    trainer.train()
    return trainer


def test_an_alarm_stops_the_training(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    callback = transformers_callback("nonfinite_loss", "stop")
    trainer = train(callback, tmp_path, broken_from=5)
    assert trainer.state.global_step == 5
    (alarm,) = callback.alarms
    assert (alarm.detector, alarm.step) == ("nonfinite_loss", 5)
    assert "nonfinite_loss: alarm at step 5" in caplog.text


def test_a_healthy_training_goes_to_its_end(tmp_path: Any) -> None:
    callback = transformers_callback(["nonfinite_loss", "composer_nan_monitor"], "stop")
    assert train(callback, tmp_path).state.global_step == 12
    assert callback.alarms == []
    assert callback.monitor.rows == 12


def test_log_goes_on_and_a_hook_stops_by_returning_true(tmp_path: Any) -> None:
    assert train(transformers_callback("nonfinite_loss"), tmp_path, broken_from=5).state.global_step == 12
    alarms = []

    def hook(alarm: Any) -> bool:
        alarms.append(alarm)
        return True

    assert train(transformers_callback("nonfinite_loss", hook), tmp_path, broken_from=3).state.global_step == 3
    assert [alarm.step for alarm in alarms] == [3]


def test_the_trainers_filter_is_warned_of(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    callback = transformers_callback("nonfinite_loss", "stop")
    trainer = train(callback, tmp_path, broken_from=5, logging_nan_inf_filter=True)
    assert trainer.state.global_step == 12  # the Trainer logs its mean instead, and nothing shows
    assert "logging_nan_inf_filter is on" in caplog.text


def test_rows_are_what_the_trainer_logged(tmp_path: Any) -> None:
    rows = []

    class Seen:
        def reset(self, context: Any) -> None:
            rows.clear()

        def update(self, row: Any) -> None:
            rows.append({name: value for name, value in row.items() if value is not None})

    trainer = train(transformers_callback(Seen), tmp_path, eval_strategy="steps", eval_steps=4)
    losses = {entry["step"]: entry["loss"] for entry in trainer.state.log_history if "loss" in entry}
    assert {row["step"]: pytest.approx(row["loss"], rel=1e-6) for row in rows} == losses
    assert all({"grad_norm", "lr"} <= set(row) for row in rows)
    # An evaluation at step 4 is logged after the row of step 4: it comes with the next one.
    assert [row["step"] for row in rows if "validation_loss" in row] == [5, 9]


def test_a_detector_that_crashes_does_not_end_the_training(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def reset(self, context: Any) -> None: ...

        def update(self, row: Any) -> bool:
            raise RuntimeError("by design")

    callback = transformers_callback([Broken, "nonfinite_loss"], "stop")
    assert train(callback, tmp_path, broken_from=6).state.global_step == 6
    assert callback.monitor.crashed == {"Broken": "RuntimeError: by design"}
    assert caplog.text.count("by design") == 1


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="on_alarm: 'halt' is not allowed; allowed: log, stop, a function"):
        transformers_callback("zclip", "halt")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="did you mean 'zclip'"):
        transformers_callback("zclop")
