"""Tests of the classifier as an estimator."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from flyswarm import FlyNNClassifier, Model
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

SCALINGS = ["soft-bins", "standard", "center", "unit-norm", "none"]
SMALL = {"m": 512, "rho": 16}


def iris(dtype=np.float32):
    X, y = load_iris(return_X_y=True)
    return np.ascontiguousarray(X, dtype=dtype), y


def test_all_checks_of_scikit_learn_pass():
    results = check_estimator(FlyNNClassifier(), on_skip=None, on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}, skipped
    assert sum(r["status"] == "passed" for r in results) >= 50


@pytest.mark.parametrize("scaling", SCALINGS)
def test_partial_fits_of_any_cut_equal_one_fit_bit_for_bit(scaling):
    X, y = iris()
    whole = FlyNNClassifier(scaling=scaling, calibrate=False, **SMALL).fit(X, y).model_.encode()
    for cut in (1, 50, 149):
        parts = FlyNNClassifier(scaling=scaling, **SMALL)
        parts.partial_fit(X[:cut], y[:cut], classes=[0, 1, 2]).predict(X[:3])
        parts.partial_fit(X[cut:], y[cut:])
        assert parts.model_.encode() == whole


@pytest.mark.parametrize("scaling", ["unit-norm", "none"])
def test_a_merged_model_is_that_of_all_rows(scaling):
    X, y = iris()
    whole = FlyNNClassifier(scaling=scaling, calibrate=False, **SMALL).fit(X, y)
    one, two = (FlyNNClassifier(scaling=scaling, **SMALL).fit(X[i::2], y[i::2]) for i in (0, 1))
    merged = one.merge(two)
    assert merged.model_.encode() == whole.model_.encode()
    assert (one.model_.counts.sum(), merged.model_.counts.sum()) == (75 * 16, 150 * 16)


def test_models_with_kept_rows_merge_with_means_of_all_rows():
    X, y = iris()
    one, two = (FlyNNClassifier(**SMALL).partial_fit(X[p], y[p], [0, 1, 2]) for p in (y < 1, y > 0))
    whole = FlyNNClassifier(calibrate=False, **SMALL).fit(X, y)
    assert one.merge(two).model_.encode() == whole.model_.encode()


def test_models_that_differ_do_not_merge():
    X, y = iris()
    one = FlyNNClassifier(scaling="none", **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="differ in their sketch"):
        one.merge(clone(one).set_params(seed=1).fit(X, y))
    with pytest.raises(ValueError, match="readout or gamma"):
        one.merge(clone(one).set_params(gamma=0.5).fit(X, y))
    with pytest.raises(ValueError, match="the classes are"):
        one.merge(clone(one).fit(X, y + 1))
    soft = FlyNNClassifier(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match="differ in their scale"):
        soft.merge(clone(soft).fit(X[::2], y[::2]))


def test_after_a_fit_the_means_stay_and_rows_are_counted_exactly():
    X, y = iris()
    fitted = FlyNNClassifier(**SMALL).fit(X, y)
    before = fitted.model_.counts
    fitted.partial_fit(X, y)
    assert (fitted.model_.counts == 2 * before).all()


@pytest.mark.parametrize("score", ["decay", "balanced-decay", "log", "balanced-log"])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.9])
def test_the_likeliest_class_is_predicted_and_rows_sum_to_1(score, gamma):
    X, y = iris()
    fitted = FlyNNClassifier(readout=score, gamma=gamma, **SMALL).fit(X, y)
    p, novelties = fitted.predict_proba(X), fitted.novelties(X)
    assert np.allclose(p.sum(axis=1), 1) and (p >= 0).all()
    assert (np.take_along_axis(p, fitted.predict(X)[:, None], 1)[:, 0] == p.max(axis=1)).all()
    assert (fitted.predict(X) == novelties.argmin(axis=1)).all()
    assert p.max() > 0.5, "not rounded to a third"


def test_a_fit_calibrates_probabilities_and_predicts_the_same():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 5))
    # No prediction can be certain, because at most three of four rows can be right.
    y = (X[:, 0] > 0) ^ (rng.random(900) < 0.25)
    train, test = slice(0, 600), slice(600, 900)
    fitted, plain = (FlyNNClassifier(calibrate=c).fit(X[train], y[train]) for c in (True, False))
    assert (fitted.model_.calibrated, plain.model_.calibrated) == (True, False)
    assert (fitted.predict(X) == plain.predict(X)).all() and fitted.model_.digest != plain.model_.digest
    losses = [log_loss(y[test], each.predict_proba(X[test])) for each in (fitted, plain)]
    assert losses[0] != losses[1] and max(losses) < log_loss(y[test], np.full(300, y[train].mean()))
    # A model that is read from its file gives the same probabilities. A clone of the classifier is fitted in
    # the same way.
    back = FlyNNClassifier.from_model(Model.decode(fitted.model_.encode()), classes=fitted.classes_)
    assert (back.predict_proba(X) == fitted.predict_proba(X)).all()
    assert clone(back).fit(X[train], y[train]).model_.digest == fitted.model_.digest
    # Rows that the model was not trained on are refused.
    with pytest.raises(ValueError, match="has not learnt from these rows"):
        plain.model_.calibrate(X[test].astype(np.float32), y[test].astype(np.uint16))


@pytest.mark.parametrize("names", [["a", "b", "c"], [10, 20, 30], [-1, 5, 7]])
def test_labels_come_back_as_they_were_given(names):
    X, y = iris()
    labels = np.asarray(names)[y]
    predicted = FlyNNClassifier(**SMALL).fit(X, labels).predict(X)
    assert predicted.dtype == labels.dtype and (predicted == labels).mean() > 0.9


def test_it_works_in_a_pipeline_a_search_and_cross_validation():
    X, y = iris()
    pipeline = make_pipeline(StandardScaler(), FlyNNClassifier(**SMALL))
    search = GridSearchCV(pipeline, {"flynnclassifier__rho": [1, 16]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert cross_val_score(clone(pipeline), X, y, cv=3, scoring="roc_auc_ovr").mean() > 0.95


def test_a_pickled_model_predicts_alike_and_goes_on_learning():
    X, y = iris()
    for scaling in SCALINGS:
        one = FlyNNClassifier(scaling=scaling, **SMALL).partial_fit(X[:80], y[:80], [0, 1, 2])
        other = pickle.loads(pickle.dumps(one))
        assert (other.predict_proba(X) == one.predict_proba(X)).all()
        both = [each.partial_fit(X[80:], y[80:]).model_.digest for each in (other, one)]
        assert both[0] == both[1]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_frames_are_kept_and_checked(frame):
    X, y = iris()
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    make = lambda X, names: frame(dict(zip(names, X.T, strict=True)))
    fitted = FlyNNClassifier(**SMALL).fit(make(X, names), y)
    assert fitted.model_.columns == list(fitted.feature_names_in_) == names
    assert (fitted.predict(make(X, names)) == FlyNNClassifier(**SMALL).fit(X, y).predict(X)).all()
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(make(X, names[::-1]))


def test_sparse_rows_are_refused_clearly():
    X, y = iris()
    with pytest.raises(TypeError, match="dense data is required"):
        FlyNNClassifier().fit(csr_array(X), y)


def test_other_types_and_orders_of_an_array_give_the_same_model(monkeypatch):
    monkeypatch.setattr("flyswarm._rows.ROWS", 7)
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    given = [X, X.astype(np.float32), X.astype(np.int8)]
    given += [np.asfortranarray(X), np.repeat(X, 2, 0)[::2], X.tolist()]
    models = {FlyNNClassifier(**SMALL).fit(x, y).model_.digest for x in given}
    monkeypatch.undo()
    assert models == {FlyNNClassifier(**SMALL).fit(X, y).model_.digest}


def test_rows_of_float32_in_order_are_not_copied():
    from flyswarm._rows import chunks

    X, _ = iris()
    assert all(np.shares_memory(rows, X) for _, rows in chunks(X))


def test_a_number_that_is_too_large_is_named_by_its_place(monkeypatch):
    monkeypatch.setattr("flyswarm._rows.ROWS", 10)
    for large, dtype in [(2.0**80, np.float32), (-(2.0**80), np.float64), (1e300, np.float64)]:
        X, y = iris(dtype)
        X[57, 2] = large
        with pytest.raises(ValueError, match="row 57, feature 2 is .*, expected a number below 2.80"):
            FlyNNClassifier(**SMALL).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"m": 0}, "m is 0, expected 1 to"),
        ({"rho": 17, "m": 16}, r"rho is 17, expected 1 to 16 \(m\)"),
        ({"s": 33}, r"s is 33, expected 1 to 32 \(d\)"),
        ({"gamma": 1.0}, "gamma is 1, expected 0 or more and below 1"),
        ({"scaling": "softbins"}, "scaling is .softbins., expected none"),
        ({"readout": "best"}, "readout is .best., expected decay"),
        ({"scaling": "range", "bounds": (1, 0)}, "expected finite bounds, the lower one first"),
    ],
)
def test_a_parameter_out_of_range_is_named(parameters, problem):
    X, y = iris()
    with pytest.raises(ValueError, match=problem):
        FlyNNClassifier(**parameters).fit(X, y)


def test_a_model_survives_its_file(tmp_path):
    X, y = iris()
    fitted = FlyNNClassifier(**SMALL).fit(X, np.array(["s", "v", "w"])[y])
    fitted.model_.save(tmp_path / "iris.model")
    read = FlyNNClassifier.from_model(Model.load(tmp_path / "iris.model"))
    assert (read.predict(X) == fitted.predict(X)).all()
    assert clone(read).fit(X, np.array(["s", "v", "w"])[y]).model_.digest == fitted.model_.digest
    (tmp_path / "broken").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="broken"):
        Model.load(tmp_path / "broken")
    with pytest.raises(OSError, match="missing"):
        Model.load(tmp_path / "missing")
