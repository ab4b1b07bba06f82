"""The page of a class in a browser."""

import pytest

from trainwreck.evaluation.pages.quiz.classroom.class_page import write_class
from trainwreck.evaluation.pages.quiz.classroom.scores import results
from trainwreck.evaluation.pages.quiz.classroom.summary import confusions, run_rows


@pytest.mark.browser
def test_it_looks_right_at_every_width_and_on_paper(quiz, sheet_of, late, looks_right, tmp_path):
    sheets = [sheet_of(quiz, late(3), "Ada"), sheet_of(quiz, late(9, ["no_warmup"]), "Bob", 2)]
    found = results(sheets, {quiz.recipe.id: quiz})
    page, *_ = write_class(tmp_path / "class", found, run_rows(found), confusions(found))
    looks_right(page, paper=1047)
