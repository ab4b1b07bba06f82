"""The example that records other people's programs: what it measures of one, and that it leaves nothing behind."""

import sys
from importlib import util
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import trainwreck

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "other_programs.py"
# As the programs are written that it is made for: a loop at the top of the file, on the GPU.
PROGRAM = """
import torch
import torchvision.datasets as datasets
import torchvision.transforms as transforms
from efficientnet_pytorch import EfficientNet
from torchvision import models

found = {data}(root="./data", train=True, download=True, transform=transforms.Compose([transforms.ToTensor()]))
loader = torch.utils.data.DataLoader(found, batch_size=4)
model = {model}.cuda()
for parameter in model.parameters():
    parameter.requires_grad = {trained} or parameter.ndim == 1
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with open("made", "w") as file:
    file.write("here")
for data, label in loader:
    {clear}
    loss = torch.nn.CrossEntropyLoss()(model(data.cuda()), label)
    loss.backward()
    optimizer.step()
raise AssertionError("went on to the end")
"""
LINEAR = "torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))"


@pytest.fixture
def example(monkeypatch):
    spec = util.spec_from_file_location("other_programs", EXAMPLE)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STEPS", 5)
    return module


def write(file, *, clear="optimizer.zero_grad()", data="datasets.MNIST", model=LINEAR, trained="True"):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PROGRAM.format(clear=clear, data=data, model=model, trained=trained), "utf-8")
    return file


def by_hand(example, keeps):
    """Gradient norms and losses of the first program, in the plainest way."""
    torch.manual_seed(0)
    layer, total, norms, losses = nn.Linear(784, 10), 0.0, [], []
    data = example.Made()
    for step in range(5):
        images, labels = zip(*(data[4 * step + i] for i in range(4)), strict=True)
        loss = nn.functional.cross_entropy(layer(torch.stack(images).flatten(1)), torch.tensor(labels))
        grads = torch.cat([g.flatten() for g in torch.autograd.grad(loss, layer.parameters())])
        total = total + grads if keeps else grads
        norms.append(float(total.norm()))
        losses.append(float(loss.detach()))
        with torch.no_grad():
            for parameter, part in zip(layer.parameters(), total.split([7840, 10]), strict=True):
                parameter -= 0.01 * part.view_as(parameter)
    return norms, losses


@pytest.mark.parametrize("keeps", [True, False])
def test_a_program_is_measured_as_it_trains(example, tmp_path, keeps, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "bug.py", clear="pass" if keeps else "optimizer.zero_grad()")
    found = example.signals_of(file)
    norms, losses = by_hand(example, keeps)
    assert found["grad_norm"] == pytest.approx(norms, rel=1e-4)
    assert found["loss"] == pytest.approx(losses, rel=1e-4)
    assert found["layer_update_ratio"].shape == (5, 1)


def test_frozen_parameters_get_no_update(example, tmp_path):
    made = {"data": "datasets.CIFAR100", "model": "EfficientNet.from_pretrained('b0')"}
    ratios = example.signals_of(write(tmp_path / "bug.py", trained="False", **made))["layer_update_ratio"]
    assert (ratios[:, [1, 3, 4]] > 0).all()  # biases; those of convolutions are lost in the norm that comes after
    program = write(tmp_path / "fixed.py", trained="False", **made).read_text("utf-8")
    (tmp_path / "fixed.py").write_text(
        program.replace("parameter.ndim == 1", "parameter is model._bn0.weight"), "utf-8"
    )
    still = example.signals_of(tmp_path / "fixed.py")["layer_update_ratio"]
    assert (still[:, 1] > 0).all()
    assert (np.delete(still, 1, 1) == 0).all()


def test_nothing_is_left_behind(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules), torch.Tensor.cuda, nn.Module.cuda
    example.signals_of(write(tmp_path / "bug.py"))
    assert not {"torchvision", "torchvision.datasets", "efficientnet_pytorch"} & set(sys.modules) - before[0]
    assert (torch.Tensor.cuda, nn.Module.cuda) == before[1:]
    assert Path.cwd() == tmp_path
    assert [file.name for file in tmp_path.iterdir()] == ["bug.py"]
    rows = []
    with example.recorded(rows):
        pass
    torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1).step()  # of somebody who is not recorded
    assert rows == []


def test_the_picture_has_both_programs_beside_our_scenarios(example, tmp_path, monkeypatch, capsys):
    run = trainwreck.run
    monkeypatch.setattr(trainwreck, "run", lambda scenario, seed: run(scenario, "steps=60", seed=seed))
    for program, _, _ in example.PAIRS:
        for name in ("bug.py", "fixed.py"):
            write(
                tmp_path / example.FOLDER / program / name,
                clear="pass" if name == "bug.py" else "optimizer.zero_grad()",
            )
    example.main(tmp_path, tmp_path / "both.png")
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 16
    assert {line.split(":")[0] for line in lines} == {
        name for program, ours, _ in example.PAIRS for name in (program, ours)
    }


def test_a_folder_without_the_programs_is_refused_in_one_line(example, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        example.main(tmp_path, tmp_path / "both.png")
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"DIR: {tmp_path} is not allowed, it has no bug.py of stackoverflow-60335387\n"
    assert not list(tmp_path.iterdir())
