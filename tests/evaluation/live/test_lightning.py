"""The callback in trainings of the real Lightning Trainer."""

from typing import Any

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.live.lightning import lightning_callback

pytestmark = [
    pytest.mark.monitors,
    pytest.mark.filterwarnings("default"),  # of the library: few workers, no logger
]

BATCHES = 12


def train(callback: Any, *, spike_at: int | None = None, logs: bool = False, **settings: Any) -> Any:
    """A linear model on noise; its loss is NaN from one batch on. Returns the Trainer."""
    import pytorch_lightning as lightning
    import torch

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            loss = self.layer(batch).square().mean()
            if spike_at is not None and index >= spike_at:
                loss = loss * float("nan")
            if logs:
                self.log("train/grad_norm", float(index))
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val_loss", self.layer(batch).square().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    data = torch.randn(4 * BATCHES, 4, generator=torch.Generator().manual_seed(0))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
        **({"limit_val_batches": 0} | settings),
    )
    trainer.fit(Module(), loader, torch.utils.data.DataLoader(data[:8], batch_size=4))
    return trainer


def test_an_alarm_stops_the_training() -> None:
    callback = lightning_callback("nonfinite_loss", "stop")
    trainer = train(callback, spike_at=4)
    assert trainer.global_step == 5
    (alarm,) = callback.alarms
    assert (alarm.step, alarm.signals["lr"]) == (5, pytest.approx(0.01))


def test_a_healthy_training_goes_to_its_end() -> None:
    callback = lightning_callback(["nonfinite_loss", "loss_over_minimum"], "log")
    assert train(callback).global_step == BATCHES
    assert callback.monitor.rows == BATCHES


def test_a_hook_is_called_and_stops_only_by_returning_true() -> None:
    alarms: list[Any] = []
    assert train(lightning_callback("nonfinite_loss", alarms.append), spike_at=2).global_step == BATCHES
    assert [alarm.step for alarm in alarms] == [3]


def test_rows_have_what_is_logged_and_validation_once() -> None:
    rows: list[dict[str, Any]] = []

    class Seen:
        def reset(self, context: Any) -> None: ...

        def update(self, row: Any) -> None:
            rows.append({name: value for name, value in row.items() if value is not None})

    train(lightning_callback(Seen), logs=True, limit_val_batches=2, val_check_interval=4)
    assert [row["step"] for row in rows] == list(range(1, BATCHES + 1))
    assert [row["grad_norm"] for row in rows] == [float(i) for i in range(BATCHES)]
    # Nothing of the check before the training; an evaluation after step 4 comes with the row of step 5.
    assert [row["step"] for row in rows if "validation_loss" in row] == [5, 9]


def test_accumulated_gradients_give_a_row_a_step() -> None:
    callback = lightning_callback("nonfinite_loss")
    train(callback, accumulate_grad_batches=3)
    assert callback.monitor.rows == BATCHES / 3
    thinned = lightning_callback("nonfinite_loss", every=4)
    train(thinned)
    assert thinned.monitor.rows == BATCHES / 4


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="every: 0 is not allowed"):
        lightning_callback("zclip", every=0)
