"""Tests of label propagation and kNN-Per as estimators."""

import pickle

import numpy as np
import pytest
from flyswarm import FlyNNClassifier, KNNPerClassifier, LabelPropagation
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.utils.estimator_checks import check_estimator

# Small estimators, so that the checks take seconds.
CHECKED = [
    LabelPropagation(bits=256),
    KNNPerClassifier(FlyNNClassifier(m=512, rho=16), cv=2),
]


@pytest.mark.parametrize("estimator", CHECKED, ids=lambda e: type(e).__name__)
def test_all_checks_of_scikit_learn_pass(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}
    assert sum(r["status"] == "passed" for r in results) >= 40


def test_labels_spread_over_digits_of_which_one_in_ten_has_one():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    given = np.where(np.random.default_rng(0).random(500) < 0.1, y, -1)
    fitted = LabelPropagation(bits=1024).fit(X, given)
    assert (fitted.transduction_ == y).mean() > 0.7
    assert fitted.label_distributions_.shape == (500, 10)
    other = pickle.loads(pickle.dumps(fitted))
    assert (other.predict(X[:50]) == fitted.predict(X[:50])).all()


def test_balanced_labels_are_right_more_often_where_one_class_has_most_of_them():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    # Two labels of each class are known, except that all labels of the nines are known.
    first = np.array([(y[:at] == y[at]).sum() < 2 for at in range(len(y))])
    given = np.where(first | (y == 9), y, -1)
    fitted = [LabelPropagation(bits=1024, balance=balance).fit(X, given) for balance in (False, True)]
    right = [(each.transduction_ == y)[given == -1].mean() for each in fitted]
    assert right[1] > right[0] + 0.05, right


def test_rows_that_no_label_reaches_stay_unlabelled():
    X = [[0.0], [0.1], [0.2], [900.0], [900.1], [900.2]]
    fitted = LabelPropagation(neighbours=2).fit(X, [4, -1, -1, -1, -1, -1])
    assert fitted.classes_.tolist() == [4] and set(fitted.transduction_.tolist()) <= {4, -1}
    with pytest.raises(ValueError, match="no label is known"):
        fitted.fit(X, [-1] * 6)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"bits": 100}, "codes of 100 bits: a power of two"),
        ({"neighbours": 0}, "k is at least 1"),
        ({"alpha": 1.0}, "alpha = 1"),
        ({"scaling": "soft-bins", "bins": 1}, "bins is 1, expected 2 to 64"),
    ],
)
def test_a_parameter_of_propagation_out_of_range_is_named(parameters, problem):
    with pytest.raises(ValueError, match=problem):
        LabelPropagation(**parameters).fit([[0.0], [1.0], [2.0]], [0, 1, -1])


def test_own_rows_correct_a_shared_classifier_that_is_wrong_for_them():
    X, y = load_iris(return_X_y=True)
    shared = FlyNNClassifier(m=512, rho=16).fit(X, y)
    # This user's rows have other names for the classes.
    own = (y + 1) % 3
    personal = KNNPerClassifier(FrozenEstimator(shared)).fit(X[::2], own[::2])
    assert personal.part_ >= 0.5 and personal.estimator_.estimator is shared
    assert personal.score(X[1::2], own[1::2]) > 0.9 > shared.score(X[1::2], own[1::2])


def test_the_parts_0_and_1_are_classifier_and_neighbours_alone():
    X, y = load_iris(return_X_y=True)
    shared = FlyNNClassifier(m=512, rho=16).fit(X, y)
    alone = KNNPerClassifier(FrozenEstimator(shared), part=0.0).fit(X[::2], y[::2])
    assert (alone.predict_proba(X) == shared.predict_proba(X)).all()
    near = KNNPerClassifier(FrozenEstimator(shared), part=1.0, k=1).fit(X[::2], y[::2])
    assert near.score(X[::2], y[::2]) == 1.0
    again = pickle.loads(pickle.dumps(clone(near).fit(X[::2], y[::2])))
    assert (again.predict_proba(X) == near.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [({"k": 0}, "k is 0, must be 1 to 1024"), ({"scale": 0.0}, "scale is 0"), ({"part": 2.0}, "part is 2.0")],
)
def test_a_parameter_of_knn_per_out_of_range_is_named(parameters, problem):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=problem):
        KNNPerClassifier(FlyNNClassifier(m=64, rho=4), **parameters).fit(X, y)


def visits(patients=80, seed=0):
    """Returns four similar visits of each patient. The outcome of a patient is random."""
    random = np.random.default_rng(seed)
    own, outcome = random.normal(size=(patients, 6)), random.integers(0, 2, patients)
    patient = np.repeat(np.arange(patients), 4)
    return own[patient] + random.normal(scale=0.01, size=(4 * patients, 6)), outcome[patient], patient


def test_with_groups_probabilities_of_new_patients_are_not_too_sure():
    X, y, patient = visits()
    new, truth, _ = visits(seed=1)
    loss = []
    for groups in (None, patient, [f"P{number}" for number in patient]):
        p = FlyNNClassifier(m=1024, rho=32).fit(X, y, groups=groups).predict_proba(new)
        loss.append(-np.log(p[np.arange(len(p)), truth]).mean())
    assert loss[0] > 1 > loss[1] and loss[2] < 1, loss


def test_with_groups_a_part_is_not_chosen_by_visits_of_known_patients():
    X, y, patient = visits()
    chooser = KNNPerClassifier(FrozenEstimator(FlyNNClassifier(m=256, rho=8).fit(X, y)), k=3)
    assert chooser.fit(X, y, groups=patient).part_ <= chooser.fit(X, y).part_
    assert KNNPerClassifier(FlyNNClassifier(m=256, rho=8), k=3).fit(X, y, groups=patient).part_ <= 1


@pytest.mark.parametrize(
    ("groups", "problem"),
    [([1, 2], "expected one group for each of 320 rows"), ([None] + [1] * 319, "row 0 has no group")],
)
def test_groups_that_do_not_fit_are_refused(groups, problem):
    X, y, _ = visits()
    for estimator in (FlyNNClassifier(m=64, rho=4), KNNPerClassifier(FlyNNClassifier(m=64, rho=4))):
        with pytest.raises(ValueError, match=problem):
            estimator.fit(X, y, groups=groups)
