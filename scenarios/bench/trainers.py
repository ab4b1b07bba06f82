"""Peers that train one run after another: the plain loop, and the trainers that people use, which log every step.

Each gets a run's setup and its rows, and does the same work: model, batch size, AdamW, clipping, learning rates. None
validates, saves or says anything.
"""

import csv
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from trainwreck.evaluation.extras import require
from trainwreck.scenarios.bench.plain import Plain, PlainLoop
from trainwreck.scenarios.config.schedule import learning_rate
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batches import Batch

EXTRA = "monitors"
Train = Callable[[Setup, Batch], list[float]]
"""Trains a run on batches [S, B, T] from the model's making to its last step; gives the losses that it logged."""


def plain(setup: Setup, batches: Batch) -> list[float]:
    """A `Train`: the loop of `plain.py`, which logs nothing."""
    tokens, rate = batches.inputs.reshape(-1), partial(learning_rate, setup)
    PlainLoop(setup.model, setup.data.rows, tokens, rotary=True, rate=rate).run(setup.steps)
    return []


def transformers_trainer() -> Train:
    """The Trainer of Hugging Face's Transformers with `logging_steps=1`; InputError where it is not installed."""
    library = require("transformers", EXTRA)
    require("accelerate", EXTRA)  # without it the Trainer does not start
    printer = require("transformers.trainer_callback", EXTRA).PrinterCallback

    def train(setup: Setup, batches: Batch) -> list[float]:
        own, schedule = setup.optimizer, setup.schedule
        with tempfile.TemporaryDirectory() as folder, quiet():
            arguments = library.TrainingArguments(
                output_dir=folder,
                max_steps=setup.steps,
                per_device_train_batch_size=setup.data.rows,
                logging_steps=1,
                optim="adamw_torch_fused",
                learning_rate=own.lr,
                adam_beta1=own.beta1,
                adam_beta2=own.beta2,
                weight_decay=own.weight_decay,
                max_grad_norm=own.clip,
                lr_scheduler_type="cosine_with_min_lr",
                lr_scheduler_kwargs={"min_lr_rate": schedule.final_fraction},
                warmup_steps=schedule.warmup_steps,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
                dataloader_pin_memory=False,
            )
            examples = [{"tokens": row, "targets": right} for row, right in zip(*_rows(batches), strict=True)]
            trainer = library.Trainer(LossModel(setup), arguments, train_dataset=examples)
            trainer.remove_callback(printer)
            trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    return train


def lightning_trainer() -> Train:
    """Lightning's Trainer with `log_every_n_steps=1` into a CSV file; InputError where it is not installed."""
    library = require("pytorch_lightning", EXTRA)
    loggers = require("pytorch_lightning.loggers", EXTRA)

    class Module(library.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, setup: Setup) -> None:
            super().__init__()
            self.setup_of_run, self.model = setup, Plain(setup.model, rotary=True)

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            loss: Tensor = self.model(*batch)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> dict[str, Any]:
            setup = self.setup_of_run
            own = setup.optimizer
            optimizer = torch.optim.AdamW(
                self.parameters(), own.lr, (own.beta1, own.beta2), own.eps, own.weight_decay, fused=True
            )
            share = lambda step: learning_rate(setup, step) / own.lr  # noqa: E731
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def train(setup: Setup, batches: Batch) -> list[float]:
        with tempfile.TemporaryDirectory() as folder, quiet():
            trainer = library.Trainer(
                accelerator="cpu",
                devices=1,
                max_steps=setup.steps,
                gradient_clip_val=setup.optimizer.clip,
                logger=loggers.CSVLogger(folder),
                log_every_n_steps=1,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            rows = DataLoader(TensorDataset(*_rows(batches)), setup.data.rows, shuffle=True)
            trainer.fit(Module(setup), rows)
            (written,) = Path(folder).rglob("metrics.csv")
            with written.open(encoding="utf-8") as file:
                return [float(entry["loss"]) for entry in csv.DictReader(file)]

    return train


class LossModel(nn.Module):
    """The plain model with its loss under the name that the Transformers Trainer looks for."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.model = Plain(setup.model, rotary=True)

    def forward(self, tokens: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"loss": self.model(tokens, targets)}


def _rows(batches: Batch) -> tuple[Tensor, Tensor]:
    """Inputs and targets, [S * B, T]."""
    inputs, targets = (torch.from_numpy(x).flatten(0, 1) for x in (batches.inputs, batches.targets))
    return inputs, targets


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, of few workers and the like, and no greetings of the libraries' loggers."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning", "transformers", "accelerate")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
