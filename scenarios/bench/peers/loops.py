"""Peers that train one run after another: a plain loop in the style of nanoGPT, and the trainers that people use.

Each does the same work: model, batch size, AdamW, clipping, learning rates. The plain loop has `nn.Module` layers,
scaled_dot_product_attention, fused AdamW and batches cut from one long array of tokens, and logs nothing; the Trainers
log every step. None validates, saves or prints.
"""

import csv
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.extras import require
from trainwreck.models.config import ModelConfig
from trainwreck.scenarios.config.schedule import learning_rate
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch

EXTRA = "monitors"
COMPILERS = ("g++", "clang++")
Train = Callable[[Setup, Batch], list[float]]
"""Trains a run on batches [S, B, T] from the model's making to its last step; gives the losses that it logged."""


class Block(nn.Module):
    """Attention and MLP under pre-LN."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.heads = c.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.qkv, self.out = nn.Linear(c.width, 3 * c.width), nn.Linear(c.width, c.width)
        self.up, self.down = nn.Linear(c.width, 4 * c.width), nn.Linear(4 * c.width, c.width)

    def forward(self, x: Tensor, angle: tuple[Tensor, Tensor] | None) -> Tensor:
        b, t, d = x.shape
        qkv = self.qkv(self.norm_1(x)).split(d, dim=2)
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in qkv)
        if angle is not None:
            q, k = rotate(q, *angle), rotate(k, *angle)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        x = x + self.down(F.gelu(self.up(self.norm_2(x))))
        return x


class Plain(nn.Module):
    """A small GPT. rotary: rotary positions, as this project's model has; else nanoGPT's learnt ones."""

    def __init__(self, c: ModelConfig, rotary: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(c.vocab_size, c.width)
        self.position = None if rotary else nn.Embedding(c.context, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm, self.head = nn.LayerNorm(c.width), nn.Linear(c.width, c.vocab_size)
        half = c.head_width // 2
        frequency = c.rope_base ** (-torch.arange(half) / half)
        turn = torch.outer(torch.arange(c.context).float(), frequency)
        self.register_buffer("cos", turn.cos())
        self.register_buffer("sin", turn.sin())

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(tokens)
        angle = None
        if self.position is None:
            angle = (self.cos, self.sin)
        else:
            x = x + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x, angle)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, halves paired."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class PlainLoop:
    """The loop: get a batch, forward, backward, clip, step.

    rate: learning rate of each step since the loop was made; by default 1e-2 at all. autocast: to bfloat16.
    compiled: forward and backward by `torch.compile`; InputError where a CPU has no C++ compiler for it.
    """

    def __init__(
        self,
        c: ModelConfig,
        rows: int,
        tokens: np.ndarray,
        rotary: bool,
        device: str = "cpu",
        rate: Callable[[int], float] | None = None,
        autocast: bool = False,
        compiled: bool = False,
    ) -> None:
        self.model, self.rows, self.context = Plain(c, rotary).to(device), rows, c.context
        self.device = device
        if compiled and device == "cpu" and not any(map(shutil.which, COMPILERS)):
            raise InputError(f"a compiled loop on a CPU needs a C++ compiler; allowed: {' or '.join(COMPILERS)}")
        self.network = torch.compile(self.model, dynamic=False) if compiled else self.model
        self.tokens = tokens
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2, betas=(0.9, 0.99), fused=True)
        self.draw = np.random.default_rng(0)
        self.rate, self.done = rate, 0
        self.autocast = torch.autocast(device, torch.bfloat16, enabled=autocast)

    def run(self, steps: int) -> None:
        """Train for a number of steps."""
        for _ in range(steps):
            starts = self.draw.integers(0, len(self.tokens) - self.context - 1, self.rows)
            rows = torch.stack([torch.from_numpy(self.tokens[s : s + self.context + 1]) for s in starts])
            rows = rows.to(self.device, non_blocking=True)
            with self.autocast:
                loss = self.network(rows[:, :-1], rows[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            if self.rate is not None:
                self.optimizer.param_groups[0]["lr"] = self.rate(self.done)
            self.optimizer.step()
            self.done += 1
            self.optimizer.zero_grad(set_to_none=True)


def plain(setup: Setup, batches: Batch) -> list[float]:
    """A `Train`: `PlainLoop`, which logs nothing."""
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
