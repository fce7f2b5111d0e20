"""Tests that labels come back from a session with their own type."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import Swarm
from flyswarm import FlyNNClassifier, KNNPerClassifier, LabelPropagation
from flyswarm._labels import named, typed, with_gaps
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator

KINDS = {
    "int64": lambda y: y.astype(np.int64) + 9,
    "uint8": lambda y: y.astype(np.uint8),
    "bool": lambda y: y > 0,
    "float": lambda y: y.astype(float),
    "float32": lambda y: y.astype(np.float32) + 0.5,
    "text": lambda y: np.array(["setosa", "versicolor", "virginica"])[y],
    "list of int": lambda y: y.tolist(),
    "list of text": lambda y: [f"kind {label}" for label in y],
    "series of int": lambda y: pd.Series(y - 1),
    "series of text": lambda y: pd.Series(np.array(["a", "b", "c"])[y]),
    "categories of text": lambda y: pd.Series(np.array(["a", "b", "c"])[y], dtype="category"),
    "categories of int": lambda y: pd.Series(y * 10, dtype="category"),
    "polars": lambda y: pl.Series(y),
}


def irises():
    X, y = load_iris(return_X_y=True)
    return X.astype(np.float32), y


def joined(folder, X, parts, classes, **given):
    """Returns the results of a session of three peers. `parts` has the labels and rows of each."""
    made = Swarm(folder, features=X.shape[1], classes=classes, privacy={"min_contributors": 1}, **given)
    results = made.join({name: (X[at], y) for name, (at, y) in zip(made.keys, parts, strict=True)})
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    return list(results.values())


@pytest.mark.parametrize("kind", KINDS)
def test_classes_have_the_labels_and_the_type_that_scikit_learn_would_give(kind):
    y = KINDS[kind](irises()[1])
    expected = np.unique(np.asarray(y))
    names = [str(label) for label in expected.tolist()]
    found = typed(names, y)
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
    assert [type(label) for label in found.tolist()] == [type(label) for label in expected.tolist()]
    assert named(y, names) == [str(label) for label in np.asarray(y).tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_classes_without_own_rows_have_the_type_of_the_others(kind):
    y = KINDS[kind](irises()[1])
    expected = np.unique(np.asarray(y))
    names = [str(label) for label in expected.tolist()][::-1]
    some = y[:50] if isinstance(y, list | np.ndarray) else y.head(50)
    found = typed(names, some)
    assert found.dtype.kind == expected.dtype.kind and found.tolist() == expected.tolist()[::-1]


def test_labels_that_do_not_fit_one_type_stay_different():
    found = typed(["1", "2", "other"], np.array([1, 2]))
    assert found.dtype == object and found.tolist() == [1, 2, "other"]
    assert typed(["1", "300"], np.array([1], np.int8)).tolist() == [1, "300"]
    assert typed(["01", "1"], np.array([1])).tolist() == ["01", 1]
    assert typed(["a", "b"], None).tolist() == ["a", "b"]
    assert typed(["1", "2"], [None, np.nan, "", -1, 2]).tolist() == [1, 2]


def test_whole_floats_are_integer_classes_and_gaps_are_unknown():
    names = ["0", "1"]
    assert named([0.0, 1.0, np.nan, None, "", -1, -1.0, pd.NA, 0], names) == ["0", "1"] + [""] * 6 + ["0"]
    assert named([-1, -1.0], ["-1", "1"]) == ["-1", "-1"]
    assert named([0.5, "nan"], names) == ["0.5", "nan"]
    assert typed(names, [0.0, np.nan]).tolist() == [0.0, 1.0] and typed(names, [0.0, np.nan]).dtype == float


@pytest.mark.parametrize(
    ("labels", "gap", "kind"),
    [
        (np.array([3, 5]), -1, "i"),
        (np.array([3, 5], np.uint8), -1, "i"),
        (np.array([-1, 5]), None, "O"),
        (np.array([True, False]), None, "O"),
        (np.array(["a", "b"]), "", "U"),
        (np.array(["a", "b"], dtype=object), "", "O"),
    ],
)
def test_a_row_that_no_label_reaches_has_a_label_that_is_no_class(labels, gap, kind):
    names = [str(label) for label in labels.tolist()]
    found = with_gaps([names[1], ""], names, labels)
    assert found.tolist() == [labels.tolist()[1], gap] and found.dtype.kind == kind
    assert with_gaps(names, names, labels).dtype == labels.dtype
    assert np.isnan(with_gaps([""], ["0.5"], np.array([0.5]))).all()


@pytest.mark.parametrize("kind", ["int64", "bool", "float", "text", "categories of text"])
def test_a_session_predicts_labels_of_the_type_that_each_peer_gave(tmp_path, kind):
    X, y = irises()
    labels = KINDS[kind](y)
    take = lambda at: labels.iloc[at] if isinstance(labels, pd.Series) else labels[at]
    classes = pd.unique(pd.Series(np.asarray(labels)))[::-1]
    parts = [(at, take(at)) for at in (np.arange(150)[i::3] for i in range(3))]
    results = joined(tmp_path, X, parts, classes, flynn={"m": 512, "rho": 16}, no_evaluate=True)
    truth = np.asarray(labels)
    for estimator, _ in results:
        assert estimator.classes_.dtype.kind == truth.dtype.kind
        assert estimator.classes_.tolist() == classes.tolist()
        assert estimator.predict(X).dtype.kind == truth.dtype.kind
        assert (estimator.predict(X) == truth).mean() > 0.85
    # The classes are not sorted, and a personal classifier still finds the class of each label.
    own = KNNPerClassifier(FrozenEstimator(results[0].estimator), k=3).fit(X, truth)
    assert (own.predict(X) == truth).mean() > 0.9
    with pytest.warns(UserWarning, match="50 of these 150 rows"):
        assert results[0].estimator.score(X, truth) > 0.85


def test_a_peer_without_a_class_and_a_peer_with_texts_get_one_model_with_own_labels(tmp_path):
    X, y = irises()
    cuts = [np.flatnonzero(y < 2)[::2], np.flatnonzero(y > 0)[::2], np.flatnonzero(y != 1)[::2]]
    parts = [(cuts[0], y[cuts[0]]), (cuts[1], y[cuts[1]].astype(str)), (cuts[2], y[cuts[2]].astype(float))]
    results = joined(tmp_path, X, parts, [0, 1, 2], flynn={"m": 512, "rho": 16}, no_evaluate=True)
    assert len({result.estimator.model_.digest for result in results}) == 1
    assert [result.estimator.classes_.tolist() for result in results] == [
        [0, 1, 2],
        ["0", "1", "2"],
        [0.0, 1.0, 2.0],
    ]
    assert [result.estimator.classes_.dtype.kind for result in results] == ["i", "U", "f"]


def test_labels_that_are_propagated_are_integers_with_minus_1_for_none(tmp_path):
    X, y = irises()
    given = np.where(np.arange(150) % 4 == 0, y, -1)
    parts = [(np.arange(150)[i::3], given[i::3]) for i in range(3)]
    results = joined(tmp_path, X, parts, range(3), task="xclp", xclp={"k": 5, "bits": 256, "alpha": 0.8})
    found = results[0].estimator
    assert found.transduction_.dtype == np.int64 and set(found.transduction_.tolist()) <= {-1, 0, 1, 2}
    assert (found.transduction_ == y[::3]).mean() > 0.7 and found.classes_.dtype == np.int64
    assert "\n" not in repr(found) and "\n" not in repr(results[0])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "float32"])
@pytest.mark.parametrize(
    "estimator",
    [
        FlyNNClassifier(m=512, rho=16),
        KNNPerClassifier(FlyNNClassifier(m=512, rho=16), k=3, cv=2),
        LabelPropagation(bits=1024, scaling="soft-bins", neighbours=5),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_estimator_predicts_labels_of_the_type_that_fit_got(estimator, kind):
    X, y = irises()
    y = KINDS[kind](y)
    if isinstance(estimator, LabelPropagation) and kind == "series of int":
        y = y + 1  # Labels without -1, because -1 would mean an unknown label.
    expected = np.unique(np.asarray(y))
    fitted = estimator.fit(X, y)
    assert fitted.classes_.dtype == expected.dtype and fitted.classes_.tolist() == expected.tolist()
    assert (fitted.predict(X) == np.asarray(y)).mean() > 0.85 and fitted.predict(X).dtype == expected.dtype
