"""Byte corpora: windows of the file as it is, the held-out tail, the hash, and errors of one line."""

import hashlib
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.sources.text import Text, open_text

CORPUS = bytes(np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8))


@pytest.fixture
def text(tmp_path) -> Text:
    (tmp_path / "corpus.bin").write_bytes(CORPUS)
    return open_text(str(tmp_path / "corpus.bin"))


def test_rows_are_windows_of_the_file(text):
    rows = text.sample(3, "train", range(5), 4, 32)
    assert rows.tokens.shape == (5, 4, 33)
    places = [CORPUS.find(bytes(row.astype(np.uint8))) for row in rows.tokens.reshape(-1, 33)]
    assert min(places) >= 0
    assert max(places) + 33 <= 900
    assert len(set(places)) > 10
    assert np.isnan(rows.nats).all()


def test_validation_is_the_last_tenth(text):
    rows = text.sample(0, "validation", range(3), 8, 32).tokens.reshape(-1, 33)
    assert all(CORPUS.find(bytes(row.astype(np.uint8))) >= 900 for row in rows)


def test_a_window_may_touch_either_end(text):
    """900 - 897 + 1 = 4 starts: 100 draws reach all of them."""
    rows = text.sample(0, "train", range(100), 1, 896).tokens
    assert {CORPUS.find(bytes(row[0].astype(np.uint8))) for row in rows} == {0, 1, 2, 3}


def test_a_step_does_not_depend_on_the_range_it_is_drawn_in(text):
    block = text.sample(3, "train", range(6), 2, 16).tokens
    assert all(np.array_equal(block[s], text.sample(3, "train", range(s, s + 1), 2, 16).tokens[0]) for s in range(6))
    assert len({step.tobytes() for step in block}) == 6
    assert not np.array_equal(block, text.sample(4, "train", range(6), 2, 16).tokens)


def test_a_document_s_first_byte_is_nobody_s_target():
    text = Text([b"a" * 40, b"b" * 60])
    batch = from_rows(text.sample(0, "train", range(40), 2, 16))
    crosses = (batch.inputs == ord("a")) & (batch.targets == ord("b"))
    assert crosses.any()
    assert np.array_equal(batch.weights == 0, crosses)
    assert np.array_equal(batch.documents == 1, batch.inputs == ord("b"))


def test_identity_is_the_hash_of_the_bytes(text):
    assert text.hash == hashlib.sha256(CORPUS).hexdigest()
    assert Text([CORPUS[:400], CORPUS[400:]]).hash == text.hash
    assert Text([CORPUS[:-1] + b"x"]).hash != text.hash


def test_the_default_is_the_standard_library_in_order():
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    assert open_text("").hash == hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
    assert open_text("").document[-1] == len(files) - 1


@pytest.mark.parametrize(
    ("size", "context", "fits"), [(0, 16, False), (18, 16, False), (19, 16, True), (19, 17, False)]
)
def test_too_short_a_file(size, context, fits, tmp_path):
    """nine tenths of 19 bytes are 17: a row of 16 and its last target."""
    (tmp_path / "short").write_bytes(b"x" * size)
    text = open_text(str(tmp_path / "short"))
    if fits:
        assert text.sample(0, "train", range(1), 2, context).tokens.shape == (1, 2, context + 1)
        return
    with pytest.raises(InputError, match=rf"^data\.text: {int(size * 0.9)} bytes .* allowed: {context + 1} or more$"):
        text.sample(0, "train", range(1), 2, context)


@pytest.mark.parametrize("name", ["missing.txt", ""])
def test_a_file_that_can_not_be_read(name, tmp_path):
    path = str(tmp_path / name)  # the second is a folder
    with pytest.raises(InputError) as error:
        open_text(path)
    assert str(error.value).startswith("data.text: ")
    assert path in str(error.value)
    assert "\n" not in str(error.value)
