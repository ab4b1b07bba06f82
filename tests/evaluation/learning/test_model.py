"""A trained detector as a file."""

from pathlib import Path

import numpy as np
import pytest

from trainwreck.evaluation.detectors.learned.features import NAMES
from trainwreck.evaluation.detectors.learned.model import CauseHead, Model, read_model, shipped, write_model
from trainwreck.evaluation.detectors.learned.trees import Forest, Trees
from trainwreck.evaluation.errors import InputError


def small_model() -> Model:
    """An alarm where the loss is over e; one cause where it is far over it, another where the rate is high."""
    loss, lr = NAMES.index("loss: level"), NAMES.index("lr: level")
    trees = Trees(
        roots=np.array([0], dtype=np.int32),
        feature=np.array([loss, 0, 0], dtype=np.int32),
        threshold=np.array([1.0, 0.0, 0.0]),
        missing_left=np.array([True, False, False]),
        left=np.array([1, 1, 2], dtype=np.int32),
        right=np.array([2, 1, 2], dtype=np.int32),
        value=np.array([0.0, -1.0, 2.0]),
        start=0.5,
        depth=1,
    )
    forest = Forest(
        roots=np.array([0, 3], dtype=np.uint32),
        feature=np.array([loss, 0, 0, lr, 0, 0], dtype=np.uint16),
        threshold=np.array([2.0, 0.0, 0.0, 2.0, 0.0, 0.0], np.float32),
        left=np.array([1, 1, 2, 4, 4, 5], dtype=np.uint32),
        right=np.array([2, 1, 2, 5, 4, 5], dtype=np.uint32),
        leaf=np.array([0, 0, 2, 3, 3, 5, 6], dtype=np.uint32),
        cause=np.array([0, 1, 0, 0, 1, 1], dtype=np.uint16),
        share=np.array([0.5, 0.5, 1.0, 0.5, 0.5, 1.0]),
        classes=2,
    )
    head = CauseHead(("corrupt_tokens", "high_lr"), forest, sure=0.6)
    return Model(trees, head, 1.0, {"plan": "small"})


def row(loss: float, lr: float) -> np.ndarray:
    values = np.full(len(NAMES), np.nan)
    values[NAMES.index("loss: level")], values[NAMES.index("lr: level")] = loss, lr
    return values


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    model = small_model()
    write_model(tmp_path / "a.npz", model)
    write_model(tmp_path / "b.npz", model)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    found = read_model(tmp_path / "a.npz")
    for loss, lr in ((0.9, 0.0), (1.1, 3.0), (np.nan, np.nan)):
        assert found.trees(row(loss, lr)) == model.trees(row(loss, lr))
        assert found.head.ranked(row(loss, lr)) == model.head.ranked(row(loss, lr))
    assert (found.threshold, found.about, found.head.sure) == (1.0, {"plan": "small"}, 0.6)
    assert found.features.tolist() == model.features.tolist()


def test_causes_are_ranked_and_unknown_where_none_is_likely() -> None:
    head = small_model().head
    assert head.ranked(row(3.0, 0.0)) == ("corrupt_tokens", "high_lr")
    assert head.ranked(row(0.0, 3.0)) == ("high_lr", "corrupt_tokens")
    assert head.ranked(row(0.1, 0.0)) == ("unknown", "corrupt_tokens", "high_lr")
    rows = np.stack([row(3.0, 0.0), row(3.0, 3.0), row(np.nan, np.nan), row(1e30, -1e30)])
    assert head.probabilities(rows).tolist() == [[0.75, 0.25], [0.5, 0.5], [0.5, 0.5], [0.75, 0.25]]


def changed(path: Path, **arrays: np.ndarray) -> Path:
    """The file with other arrays in it."""
    with np.load(path) as found:
        np.savez_compressed(path, **{**{name: found[name] for name in found.files}, **arrays})
    return path


def facts(path: Path, old: str, new: str) -> np.ndarray:
    with np.load(path) as found:
        return np.frombuffer(found["facts"].tobytes().replace(old.encode(), new.encode()), dtype=np.uint8)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    write_model(path, small_model())
    whole = path.read_bytes()
    with pytest.raises(InputError, match=r"x\.npz: missing"):
        read_model(tmp_path / "x.npz")
    with pytest.raises(InputError, match="can't be read"):
        read_model(tmp_path)
    for broken in (b"", b"loss,lr\n1,2\n", whole[: len(whole) // 2], b"PK\x03\x04" + whole[50:]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=r"m\.npz: damaged, or not what `trainwreck learn` writes"):
            read_model(path)
    np.savez(path, other=np.zeros(3))
    with pytest.raises(InputError, match="damaged, or not what"):
        read_model(path)
    np.savez(path, facts=np.array([{"a": 1}], dtype=object))  # which would have to be unpickled
    with pytest.raises(InputError, match="damaged, or not what"):
        read_model(path)


def test_files_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    write_model(path, small_model())
    changed(path, facts=facts(path, '"version": 1', '"version": 7'))
    with pytest.raises(InputError, match="version 7 is not allowed; allowed: 1; learn it again"):
        read_model(path)
    write_model(path, small_model())
    changed(path, facts=facts(path, "loss: level", "loss: felt"))
    with pytest.raises(InputError, match="learn it again"):
        read_model(path)
    write_model(path, small_model())
    changed(path, facts=facts(path, "trainwreck-learned", "trainwreck-taught!"))
    with pytest.raises(InputError, match="not what `trainwreck learn` writes"):
        read_model(path)


def test_a_file_that_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be written"):
        write_model(tmp_path / "file" / "m.npz", small_model())


def test_the_shipped_weights_say_where_they_come_from() -> None:
    about = read_model(shipped()).about
    assert shipped().stat().st_size < 2**20
    assert len(about["data_set"]) == 64
    assert about["plan"]
    assert about["command"].startswith("trainwreck learn")
    assert about["runs"]["failing"] > 0
    assert about["seeds"]
