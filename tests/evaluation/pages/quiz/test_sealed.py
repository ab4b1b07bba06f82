"""The page of a quiz has none of its answers in readable form."""

import base64
import json
import re
import zlib

import pytest

from trainwreck.evaluation.pages.quiz.page import write_page

SECRETS = ("onset", "no_return", "visible_step", 'look-alike"', "benign_")


@pytest.fixture(scope="module")
def pages(shipped, quiz, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    titles = dict.fromkeys(quiz.families, "a title")
    for name, sealed in (("open", False), ("sealed", True)):
        write_page(folder / f"{name}.html", shipped, quiz, titles, sealed=sealed)
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def data(page):
    return json.loads(re.search(r'<script type="application/json" id="quiz">(.*?)</script>', page, re.S)[1])


def test_the_data_of_a_page_names_no_run_no_label_and_no_alarm(pages, quiz):
    for page in pages.values():
        content = data(page)
        readable = json.dumps(
            {name: value for name, value in content.items() if name not in ("choices", "signals", "quiz")}
        )
        for run_id in quiz.runs["run_id"]:
            assert run_id not in page
        for secret in (*SECRETS, "grad_norm_zscore", "playbook", *quiz.families):
            assert secret not in readable
        # Every cause that may be named is in the list of choices, true or not, and nowhere else.
        assert {one["name"] for one in content["choices"]} == set(quiz.families)


def unpacked(text):
    return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))


def test_every_run_and_its_truth_stand_in_their_place(pages, shipped, quiz):
    content = data(pages["open"])
    for number, run_id in enumerate(quiz.runs["run_id"], start=1):
        truth = unpacked(content["truths"][number - 1])
        row = shipped.run(run_id)
        assert truth["kind"] == row["kind"]
        assert truth["causes"] == ([row["cause"]] if row["cause"] else [])
        shown = unpacked(content["runs"][number - 1])
        assert shown["steps"][-1] == row["last_step"]
        loss = shipped.trace(run_id)["loss"]
        assert shown["signals"]["loss"][3] == pytest.approx(float(loss[3]), rel=1e-4)


def test_a_sealed_page_has_no_truth_to_open(pages):
    content = data(pages["sealed"])
    assert content["truths"] is None
    assert "scale" not in content
    assert len(pages["sealed"]) < 0.8 * len(pages["open"])  # the twins' curves are away too


def test_no_page_asks_for_anything(pages):
    for page in pages.values():
        assert "default-src 'none'" in page
        assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", page)
