"""The exported trees beside the library that grew them."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from trainwreck.evaluation.detectors.learned.trees import Trees, filled
from trainwreck.evaluation.learning.fitted_trees import from_boosting, from_forest, gains, mean_of


@pytest.fixture(scope="module")
def grown() -> tuple[HistGradientBoostingClassifier, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.standard_normal((1500, 8))
    x[random.random(x.shape) < 0.2] = np.nan
    y = np.nan_to_num(x[:, 1]) + np.nan_to_num(x[:, 5], nan=2.0) ** 2 + 0.3 * random.standard_normal(len(x)) > 1.0
    model = HistGradientBoostingClassifier(max_iter=30, max_depth=6, early_stopping=False, random_state=0)
    return model.fit(x, y), x


def test_the_export_says_what_the_library_says(grown: tuple[HistGradientBoostingClassifier, np.ndarray]) -> None:
    model, x = grown
    trees = from_boosting(model)
    wanted = model.decision_function(x)
    assert np.abs(trees.many(x) - wanted).max() < 1e-9
    assert max(abs(trees(row) - want) for row, want in zip(x[:200], wanted[:200], strict=True)) < 1e-9


def test_a_mean_of_models_says_the_mean(grown: tuple[HistGradientBoostingClassifier, np.ndarray]) -> None:
    library, values = grown
    target = np.nan_to_num(values[:, 1]) > 0
    other = HistGradientBoostingClassifier(max_iter=7, max_depth=9, early_stopping=False, random_state=1).fit(
        values, target
    )
    parts = [from_boosting(library), from_boosting(other)]
    right = np.mean([one.many(values) for one in parts], 0)
    found = mean_of(parts)
    np.testing.assert_allclose(found.many(values), right, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose([found(row) for row in values[:50]], right[:50], rtol=1e-12, atol=1e-12)


def test_the_exported_forest_says_what_the_library_says() -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((900, 8))
    x[random.random(x.shape) < 0.2] = np.nan
    x[0, 0], x[1, 0] = 1e30, -1e30
    y = (np.nan_to_num(x[:, 0]) > 0).astype(int) + 2 * (np.nan_to_num(x[:, 3], nan=1.0) > 0.5)
    model = ExtraTreesClassifier(8, max_leaf_nodes=60, random_state=0).fit(filled(x), y, random.random(len(y)))
    forest = from_forest(model)
    assert np.abs(forest.probabilities(filled(x)) - model.predict_proba(filled(x))).max() < 1e-9
    moved = forest.renumbered(np.arange(2, 10))
    wider = np.concatenate([np.zeros((len(x), 2)), x], axis=1)
    assert np.abs(moved.probabilities(filled(wider)) - model.predict_proba(filled(x))).max() < 1e-9


def test_a_value_on_the_threshold_goes_left() -> None:
    trees = stump()
    assert [trees(np.array([value])) for value in (0.9, 1.0, 1.1, np.nan)] == [5.0, 5.0, 7.0, 7.0]
    assert trees.many(np.array([[0.9], [1.0], [1.1], [np.nan]])).tolist() == [5.0, 5.0, 7.0, 7.0]


def stump() -> Trees:
    return Trees(
        roots=np.array([0]),
        feature=np.array([0, 0, 0]),
        threshold=np.array([1.0, 0.0, 0.0]),
        missing_left=np.array([False, False, False]),
        left=np.array([1, 1, 2]),
        right=np.array([2, 1, 2]),
        value=np.array([0.0, 2.0, 4.0]),
        start=3.0,
        depth=1,
    )


def test_features_can_be_renumbered() -> None:
    moved = stump().renumbered(np.array([2]))
    assert moved(np.array([9.0, 9.0, 0.5])) == 5.0
    assert moved(np.array([0.5, 0.5, 9.0])) == 7.0


def test_gains_are_of_the_features_that_matter(grown: tuple[HistGradientBoostingClassifier, np.ndarray]) -> None:
    worth = gains(grown[0], 8)
    assert set(np.argsort(-worth)[:2]) == {1, 5}
