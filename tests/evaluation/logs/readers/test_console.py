"""Text logs: every known form, in lines made up here; any other by a pattern; what has no step is asked for."""

from typing import Any

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.readers.console import KNOWN

LOGS = {
    "modded-nanogpt": (
        "import torch  # the program prints itself first\n"
        "step:0/40 val_loss:9.5000 train_time:3ms step_avg:nanms\n"
        "step:1/40 train_loss:9.25 train_time:13ms step_avg:nanms\n"
        "step:20/40 train_loss:nan train_time:130ms step_avg:6.50ms\n"
    ),
    "nanoGPT": (
        "number of parameters: 1.20M\n"
        "step 0: train loss 9.5000, val loss 9.5000\n"
        "iter 1: loss 9.2500, time 31.25ms, mfu -100.00%\n"
        "saving checkpoint to made-up\n"
        "iter 20: loss nan, time 31.25ms, mfu 12.50%\n"
    ),
    "litgpt": (
        "Validating ...\n"
        "iter 0: val loss 9.5000, val time: 11.00 ms\n"
        "Epoch 1 | iter 1 step 0 | loss train: 9.250, val: n/a | iter time: 12.50 ms remaining time: 0:01:00\n"
        "Epoch 1 | iter 20 step 5 | loss train: nan, val: 9.500 | iter time: 12.50 ms (step) remaining time: 0:00:40\n"
    ),
    "Megatron-LM": (
        "(min, max) time across ranks (ms):\n"
        " validation loss at iteration 0 | lm loss value: 9.500000E+00 | lm loss PPL: 1.3E+04 | \n"
        " iteration        1/      40 | consumed samples:           8 | elapsed time per iteration (ms): 25.5 | "
        "learning rate: 1.000E-03 | global batch size:     8 | lm loss: 9.250000E+00 | loss scale: 1.0 | "
        "grad norm: 2.500 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        "[2001-02-03 04:05:06] iteration 20/40 | learning rate: 1.000E-03 | lm loss: NAN | loss scale: 1.0 | "
        "grad norm: nan | number of nan iterations:   1 |\n"
        " validation loss at iteration 20 on test set | lm loss value: 1.5E+00 | lm loss PPL: 4.4E+00 | \n"
    ),
    "torchtitan": (
        "[titan] 2001-02-03 04:05:06,789 - root - INFO - Training starts at step 1\n"
        "INFO - \x1b[33mvalidate step:  0  \x1b[32mloss:  9.5000  \x1b[36mmemory: 1.50GiB(2.00%)\x1b[39m\n"
        "INFO - \x1b[31mstep:  1  \x1b[32mloss:  9.2500  \x1b[38;2;180;60;0mgrad_norm:  2.5000  \x1b[36mmemory: "
        "1.50GiB(2.00%)  \x1b[34mtps: 1,250  \x1b[35mmfu: 12.50%\x1b[39m\n"
        "INFO - \x1b[31mstep: 20  \x1b[32mloss:     nan  \x1b[33mgrad_norm:     nan  \x1b[34mtps: 1,250\x1b[39m\n"
    ),
    "llm.c": "s:0 tel:9.5000\ns:1 trl:9.2500 lr:0.001000 norm:2.50\ns:20 trl:nan lr:0.001000 norm:nan\n",
}
PIPED = (
    "step    1/20 | loss 9.250000 (+nanz)| norm 2.5000 (+nanz)| lr 1.00e-03 | 31.25 ms | 12.5% bf16 MFU | 1250 tok/s\n"
    "step   20/20 | loss nan (+nanz)| norm nan (+nanz)| lr 1.00e-03 | 31.25 ms | 12.5% bf16 MFU | 1250 tok/s\n",
    "Step 00000 | Validation bpb: 3.2500\n"
    "step 00001/00020 (5.00%) | loss: 9.25 | grad norm: 2.5 | lrm: 1.00 | dt: 31.25ms | tok/sec: 1,250 | mfu: 12.50\n"
    "step 00020/00020 (99.00%) | loss: nan | grad norm: nan | lrm: 1.00 | dt: 31.25ms | tok/sec: 1,250 | mfu: 12.50\n",
)
HUGGING = (
    "  0%|          | 0/40 [00:00<?, ?it/s]\r 25%|##        | 10/40 [00:01<00:03]\n"
    "{'loss': 9.25, 'grad_norm': 2.5, 'learning_rate': 0.001, 'epoch': 0.25}\n"
    "{'eval_loss': 9.5, 'eval_runtime': 1.25, 'epoch': 0.25}\n"
    "{'loss': 'nan', 'grad_norm': 'nan', 'learning_rate': '0.001', 'epoch': '0.5'}\n"
    "{'train_runtime': 2.5, 'train_loss': 4.5, 'epoch': 0.5}\n"
)


@pytest.mark.parametrize("form", LOGS)
def test_known_forms(form: str, read_text: Any) -> None:
    trace, _, log = read_text(LOGS[form], name="run.log")
    assert log.format == "text"
    assert log.rules == {f"lines of {form}": 3}
    assert trace.steps.tolist() == [0, 1, 20]
    assert str(trace["loss"].tolist()[1:]) == "[9.25, nan]"
    assert trace.evaluated.tolist() == [True, False, False]
    assert trace["validation_loss"][0] == 9.5
    if form in ("Megatron-LM", "torchtitan", "llm.c"):
        assert str(trace["grad_norm"].tolist()[1:]) == "[2.5, nan]"


def test_every_known_form_has_a_log_here() -> None:
    assert {*LOGS, "Transformers"} == set(KNOWN)


def test_the_suffix_does_not_matter(read_text: Any) -> None:
    for name in ("run.txt", "run.csv", "slurm-1", "run.out"):
        assert read_text(LOGS["nanoGPT"], name=name)[2].format == "text"


@pytest.mark.parametrize("text", PIPED)
def test_columns_between_bars(text: str, read_text: Any) -> None:
    trace, _, log = read_text(text, name="run.txt")
    assert (log.rules, trace.steps.tolist()) == ({"lines of llm.c": 2}, [1, 20])
    assert str(trace["loss"].tolist()) == "[9.25, nan]"
    assert str(trace["grad_norm"].tolist()) == "[2.5, nan]"


def test_lines_of_transformers_have_no_step(read_text: Any) -> None:
    with pytest.raises(InputError, match=r"run\.log, line 2: lines of Transformers have no step; .* --every N"):
        read_text(HUGGING, name="run.log")
    trace, _, _ = read_text(HUGGING, name="run.log", every=10)
    assert trace.steps.tolist() == [10, 20]
    assert str(trace["loss"].tolist()) == "[9.25, nan]"
    assert trace.evaluated.tolist() == [True, False]
    assert trace["validation_loss"][0] == 9.5


def test_a_line_with_a_step_among_its_names(read_text: Any) -> None:
    lines = "".join(f'{{"step": {i}, "loss": 2.5}}\n' for i in (3, 5))
    assert read_text(lines, name="run.log")[0].steps.tolist() == [3, 5]


def test_any_other_form_by_a_pattern(read_text: Any) -> None:
    text = "[begin]\nupdate 10 of 40 got L=9.25 at 1e-3\nupdate 20 of 40 got L=nan at 1e-3\n"
    with pytest.raises(InputError, match=r"no line in a known form \(modded-nanogpt, .*Transformers\); .* --pattern"):
        read_text(text, name="run.log")
    pattern = r"update (?P<step>\d+) .* L=(?P<loss>\S+) at (?P<rate>\S+)"
    trace, _, log = read_text(text, "rate=lr", name="run.log", pattern=pattern)
    assert trace.steps.tolist() == [10, 20]
    assert str(trace["loss"].tolist()) == "[9.25, nan]"
    assert log.rules == {"lines of --pattern": 2}
    unnumbered = read_text(text, name="run.log", pattern=r"L=(?P<loss>\S+)", every=5)
    assert unnumbered[0].steps.tolist() == [5, 10]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "is no regular expression"),
        (r"L=(\d+)", "has no named group"),
        (r"nothing (?P<step>\d+)", "no line of .*run.log has it"),
        (r"L=(?P<loss>\S+)", "the groups of --pattern have no step; .*--every N"),
        (r"(?P<step>\d+) of .* L=(?P<quality>\S+)", "no column is a known signal"),
        (r"(?P<step>\d+) of .* (?P<loss>L=\S+)", r"run.log, line 1: column 'loss': 'L=9.25' is not a number"),
    ],
)
def test_patterns_that_are_refused(pattern: str, message: str, read_text: Any) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_text("update 10 of 40 got L=9.25\n", name="run.log", pattern=pattern)
    assert "\n" not in str(error.value)


def test_a_name_twice_in_a_line_is_refused(read_text: Any) -> None:
    with pytest.raises(InputError, match=r"run\.log, line 1: 'loss' stands twice, as 2.5 and 3.5"):
        read_text("iter 1: loss 2.5, loss 3.5\n", name="run.log")


def test_a_pattern_is_for_text(read_text: Any) -> None:
    with pytest.raises(InputError, match="--pattern: not allowed with --format csv"):
        read_text("step,loss\n1,2\n", format="csv", pattern="(?P<loss>x)")
