"""The gallery of the sample that ships with the package, and a reader of what is packed into a page."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.pages.gallery import write_gallery
from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue
from trainwreck.scenarios.views.symptoms import catalogue_facts


def _unpacked(text: str, twin: dict[str, Any] | None = None) -> dict[str, Any]:
    """Columns by name, with codes [K, S], numbers [K, S] and where there is none: `gap` [K, S]."""
    content = zlib.decompress(base64.b64decode(text))
    size = int.from_bytes(content[:4], "little")
    found, start = {}, 4 + size
    for facts in json.loads(content[4 : 4 + size]):
        rows, steps, bits = facts["rows"], facts["steps"], facts["bits"]
        planes = np.frombuffer(content, np.uint8, 3 * rows * steps, start).reshape(3, rows, steps).astype(np.int64)
        start += 3 * rows * steps
        folded = planes[0] + (planes[1] << 8) + (planes[2] << 16)
        codes = np.where(folded & 1, -(folded + 1) // 2, folded // 2).cumsum(1)
        if facts["twin"]:
            other = twin[facts["name"]]["codes"]
            shared = min(steps, other.shape[1])
            codes[:, :shared] += other[:, :shared]
            codes[:, shared:] += other[:, shared - 1 : shared]
        infinite = 255 << bits
        small = np.clip(np.abs(codes), 0, infinite).astype(np.uint32) << (23 - bits)
        numbers = np.where(codes < 0, -1.0, 1.0) * small.view(np.float32)
        numbers[codes == infinite + 1] = np.nan
        found[facts["name"]] = facts | {"codes": codes, "numbers": numbers, "gap": codes == infinite + 2}
    assert start == len(content)
    return found


@pytest.fixture(scope="session")
def unpacked() -> Callable[..., dict[str, Any]]:
    return _unpacked


@pytest.fixture(scope="session")
def runs_in() -> Callable[[str], dict[str, dict[str, Any]]]:
    """Every run of a page by id, read back."""

    def read(page: str) -> dict[str, dict[str, Any]]:
        scripts = re.findall(r'<script type="text/plain" id="run-([^"]+)"(?: data-twin="([^"]+)")?>([^<]*)<', page)
        found: dict[str, dict[str, Any]] = {}
        for name, twin, text in scripts:
            found[name] = _unpacked(text, found.get(twin))
        return found

    return read


@pytest.fixture(scope="session")
def facts_in() -> Callable[[str], dict[str, Any]]:
    def read(page: str) -> dict[str, Any]:
        text = re.search(r'<script type="text/plain" id="facts">([^<]*)<', page).group(1)
        return json.loads(zlib.decompress(base64.b64decode(text)))

    return read


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue(**catalogue_facts())


@pytest.fixture(scope="session")
def shipped() -> DataSet:
    return load(sample(), verify=False)


@pytest.fixture(scope="session")
def sample_page(tmp_path_factory: pytest.TempPathFactory, catalogue: Catalogue) -> Path:
    """The gallery of the sample, with two detectors that are quick."""
    page = tmp_path_factory.mktemp("gallery") / "gallery.html"
    detectors = ("loss_over_minimum", "zclip")
    write_gallery([sample()], page, catalogue, detectors=detectors, command="trainwreck gallery sample")
    return page
