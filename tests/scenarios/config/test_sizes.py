"""The named sizes: as documented, sound settings, a vocabulary that holds the language."""

import pytest

from trainwreck.models.config import Placement
from trainwreck.models.parameters import layout
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Dialect, check
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.spec.registry import scenarios

DOCUMENTED = {
    Size.MICRO: {"layers": 2, "width": 64, "context": 64},
    Size.DEEP: {"layers": 12, "width": 32, "context": 32},
    Size.SMALL: {"layers": 6, "width": 256, "context": 256},
}


@pytest.mark.parametrize("size", Size)
def test_a_size_is_what_its_comment_says(size):
    setup = healthy(size)
    assert {name: getattr(setup.model, name) for name in DOCUMENTED[size]} == DOCUMENTED[size]
    check(setup)
    assert setup.model.vocab_size >= source(source_key(setup.data)).vocabulary
    assert setup.data.dialect is Dialect.FULL
    assert setup.model.placement is Placement.PRE
    assert setup.schedule.warmup_steps < setup.steps


def test_sizes_grow():
    counts = [layout(healthy(size).model).size for size in (Size.MICRO, Size.SMALL)]
    assert counts == sorted(set(counts))


def test_healthy_setups_are_not_shared():
    healthy(Size.MICRO).optimizer.lr = 9.0
    assert healthy(Size.MICRO).optimizer.lr != 9.0


@pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name, entry in scenarios().items() for size in entry.sizes]
)
def test_every_base_of_the_catalogue_is_sound(name, size):
    setup = scenarios()[name].base(healthy(size))
    check(setup)
    assert setup.model.vocab_size >= source(source_key(setup.data)).vocabulary


def test_every_entry_is_proven_at_micro_or_deep():
    assert all({Size.MICRO, Size.DEEP} & set(entry.sizes) for entry in scenarios().values())


def test_a_narrow_base_leaves_a_large_size_its_shape():
    size = Size.SMALL
    setup = bases.chain(healthy(size))
    assert {name: getattr(setup.model, name) for name in DOCUMENTED[size]} == DOCUMENTED[size]
    assert (setup.data.dialect, setup.steps) == (Dialect.CHAIN, healthy(size).steps)
    assert bases.chain(healthy(Size.MICRO)).model.width == 48


def test_no_scenario_narrows_a_large_size():
    widths = {name: entry.base(healthy(Size.SMALL)).model.width for name, entry in scenarios().items()}
    assert {name for name, width in widths.items() if width != DOCUMENTED[Size.SMALL]["width"]} == set()
