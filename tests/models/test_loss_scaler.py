"""The loss scale of each run against PyTorch's own GradScaler, and within its bounds."""

import pytest
import torch

from trainwreck.models.optim import LossScaler

# Which of 40 steps overflow: never, always, now and then, in bursts.
PATTERNS = {
    "never": [False] * 40,
    "always": [True] * 40,
    "every fifth": [i % 5 == 4 for i in range(40)],
    "every sixth": [i % 6 == 5 for i in range(40)],
    "bursts": [i % 11 < 3 for i in range(40)],
    "once": [i == 17 for i in range(40)],
}


def scaler(runs: int, *, start: float = 2.0**16, dynamic: bool = True, interval: int = 5) -> LossScaler:
    ones = torch.ones(runs)
    return LossScaler(
        scale=ones * start, good_steps=ones * 0, dynamic=torch.tensor([dynamic] * runs), interval=ones * interval,
        minimum=ones * 2.0**-60, maximum=ones * 2.0**60,
    )  # fmt: skip


def grad_scaler_scales(overflows: list[bool], interval: int) -> list[float]:
    leaf = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([leaf], lr=0.0)
    theirs = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=interval)
    scales = []
    for overflow in overflows:
        leaf.grad = None
        theirs.scale(leaf.sum()).backward()
        if overflow:
            leaf.grad.fill_(torch.inf)
        theirs.step(optimizer)
        theirs.update()
        scales.append(theirs.get_scale())
    return scales


@pytest.mark.parametrize("interval", [1, 2, 5, 7])
def test_runs_side_by_side_go_as_grad_scaler_does(interval: int) -> None:
    ours = scaler(len(PATTERNS), interval=interval)
    history = []
    for i in range(40):
        ours.update(torch.tensor([pattern[i] for pattern in PATTERNS.values()]))
        history.append(ours.scale)
    for run, (name, pattern) in enumerate(PATTERNS.items()):
        assert [float(scale[run]) for scale in history] == grad_scaler_scales(pattern, interval), name


def test_each_run_has_its_own_interval_and_may_be_static() -> None:
    ours = scaler(3)
    ours.interval, ours.dynamic = torch.tensor([2.0, 4.0, 2.0]), torch.tensor([True, True, False])
    for _ in range(4):
        ours.update(torch.tensor([False, False, False]))
    assert (ours.scale / 2.0**16).tolist() == [4.0, 2.0, 1.0]
    ours.update(torch.tensor([True, False, True]))
    assert (ours.scale / 2.0**16).tolist() == [2.0, 2.0, 1.0]


def test_the_scale_stays_within_its_bounds() -> None:
    ours = scaler(2, start=8.0, interval=1)
    ours.minimum, ours.maximum = torch.tensor([3.0, 3.0]), torch.tensor([20.0, 20.0])
    seen = []
    for _ in range(4):
        ours.update(torch.tensor([False, True]))
        seen.append(ours.scale.tolist())
    assert seen == [[16.0, 4.0], [20.0, 3.0], [20.0, 3.0], [20.0, 3.0]]


@pytest.mark.parametrize("backoff", [0.5, 0.25])
def test_growth_undoes_one_backoff(backoff: float) -> None:
    ours = scaler(1, start=64.0, interval=3)
    ours.backoff = backoff
    ours.update(torch.tensor([True]))
    assert ours.scale.item() == 64.0 * backoff
    for _ in range(3):
        ours.update(torch.tensor([False]))
    assert ours.scale.item() == 64.0
