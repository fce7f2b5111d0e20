"""Tests of each estimator inside each wrapper of scikit-learn that users put around classifiers."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import Swarm
from flyswarm import FlyNNClassifier, KNNPerClassifier, LabelPropagation, Network
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, LabelEncoder
from sklearn.utils.validation import check_is_fitted

FITTED_HERE = {
    "FlyNNClassifier": FlyNNClassifier(m=512, rho=16),
    "KNNPerClassifier": KNNPerClassifier(FlyNNClassifier(m=512, rho=16), k=3, cv=2),
    "LabelPropagation": LabelPropagation(bits=1024, scaling="soft-bins", neighbours=5),
}
NAMES = [*FITTED_HERE, "Network"]


def rows(classes=3):
    """Returns the irises of the last `classes` classes, shuffled, with integers as labels."""
    X, y = load_iris(return_X_y=True)
    mixed = np.random.default_rng(0).permutation(np.flatnonzero(y >= 3 - classes))
    return X[mixed].astype(np.float32), y[mixed]


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Returns a network of two classes and one of three, each trained by a session with integer labels."""
    made = {}
    for classes in (2, 3):
        X, y = rows(classes)
        swarm = Swarm(
            tmp_path_factory.mktemp("network"), task="fedavg", network="mlp", hidden=[8], rounds=30,
            features=4, classes=sorted(set(y.tolist())), data={"scaling": "standard"},
            fedavg={"rate": 0.3, "epochs": 5, "schedule": "constant", "held_out": 0},
            privacy={"min_contributors": 1},
        )  # fmt: skip
        results = swarm.join({name: (X[i::3], y[i::3]) for i, name in enumerate(swarm.keys)})
        assert all(not isinstance(result, BaseException) for result in results.values()), results
        made[classes] = results["peer0"].estimator
        made[classes]._learnt = None
    return made


@pytest.fixture(params=NAMES)
def estimator(request, networks):
    """Returns each estimator in turn. A network is frozen, because a session has trained it."""
    if request.param == "Network":
        return FrozenEstimator(networks[3])
    return clone(FITTED_HERE[request.param])


def test_it_works_at_the_end_of_a_pipeline(estimator):
    X, y = rows()
    pipeline = make_pipeline(FunctionTransformer(), estimator).fit(X, y)
    assert pipeline.score(X, y) > 0.85
    assert pipeline.predict(X).dtype == y.dtype and pipeline.predict_proba(X).shape == (150, 3)
    assert np.allclose(np.exp(pipeline.predict_log_proba(X)), pipeline.predict_proba(X))


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_calibrated(networks, name, classes, ensemble, method):
    X, y = rows(classes)
    one = FrozenEstimator(networks[classes]) if name == "Network" else clone(FITTED_HERE[name])
    calibrated = CalibratedClassifierCV(one, cv=2, ensemble=ensemble, method=method).fit(X, y)
    p = calibrated.predict_proba(X)
    assert calibrated.score(X, y) > 0.85 and np.allclose(p.sum(axis=1), 1)
    assert (calibrated.classes_ == np.unique(y)).all()


def test_the_importance_of_each_feature_is_found(estimator):
    X, y = rows()
    # The last feature is the same in every row.
    if not isinstance(estimator, FrozenEstimator):
        X = np.column_stack([X[:, 2:], np.zeros(len(X), np.float32)])
    found = permutation_importance(estimator.fit(X, y), X, y, n_repeats=2, random_state=0)
    assert found.importances_mean.max() > 0.1
    if not isinstance(estimator, FrozenEstimator):
        assert found.importances_mean[-1] == 0


def test_a_frozen_estimator_predicts_alike_and_is_not_fitted_again(estimator):
    X, y = rows()
    frozen = FrozenEstimator(estimator if isinstance(estimator, FrozenEstimator) else estimator.fit(X, y))
    before = frozen.predict_proba(X)
    again = clone(frozen).fit(X, y[::-1])
    assert (again.predict_proba(X) == before).all() and (again.predict(X) == frozen.predict(X)).all()
    check_is_fitted(again)


def test_it_votes_and_is_cross_validated_and_searched(estimator):
    X, y = rows()
    encoded = LabelEncoder().fit_transform(y)
    voting = VotingClassifier([("one", estimator), ("two", FlyNNClassifier(m=256, rho=8))], voting="soft")
    assert voting.fit(X, encoded).score(X, encoded) > 0.85
    assert cross_val_score(estimator, X, y, cv=2, scoring="neg_log_loss", error_score="raise").mean() > -1
    if not isinstance(estimator, FrozenEstimator):
        search = GridSearchCV(estimator, {"seed": [0, 1]}, cv=2, error_score="raise").fit(X, y)
        assert search.best_score_ > 0.8


def test_it_is_stacked_and_bagged_and_has_a_learning_curve(estimator):
    X, y = rows()
    stacked = StackingClassifier([("one", estimator)], LogisticRegression(max_iter=1000), cv=2).fit(X, y)
    bagged = BaggingClassifier(estimator, n_estimators=2, random_state=0).fit(X, y)
    assert stacked.score(X, y) > 0.85 and bagged.score(X, y) > 0.85
    assert (cross_val_predict(estimator, X, y, cv=2) == y).mean() > 0.8
    _, _, scores = learning_curve(estimator, X, y, train_sizes=[0.5, 1.0], cv=2, error_score="raise")
    assert scores.mean() > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_a_threshold_of_two_classes_is_tuned(networks, name):
    X, y = rows(2)
    one = FrozenEstimator(networks[2]) if name == "Network" else clone(FITTED_HERE[name])
    tuned = TunedThresholdClassifierCV(one, cv=2, random_state=0).fit(X, y)
    assert tuned.score(X, y) > 0.85 and np.isfinite(tuned.best_threshold_)
    if name != "Network":
        # A frozen network keeps its three classes.
        rest = OneVsRestClassifier(clone(one)).fit(*rows())
        assert rest.score(*rows()) > 0.8 and rest.predict_proba(X).shape == (100, 3)


def test_the_hidden_layer_feeds_another_classifier_in_a_pipeline(networks):
    X, y = rows()
    network = networks[3]
    pipeline = make_pipeline(FrozenEstimator(network), LogisticRegression(max_iter=1000)).fit(X, y)
    assert pipeline.score(X, y) > 0.85 and pipeline[-1].n_features_in_ == 8
    assert (pipeline.predict(X) == pipeline[-1].predict(network.transform(X))).all()


@pytest.mark.parametrize("name", ["FlyNNClassifier", "Network"])
def test_a_decision_of_two_classes_is_one_number_above_0_for_the_second(networks, name):
    X, y = rows(2)
    one = networks[2] if name == "Network" else clone(FITTED_HERE[name]).fit(X, y)
    scores = one.decision_function(X)
    assert scores.shape == (100,) and scores.dtype == np.float64
    assert (one.classes_[(scores > 0).astype(int)] == one.predict(X)).all()
    assert roc_auc_score(y, scores) > 0.9
    three = networks[3] if name == "Network" else clone(FITTED_HERE[name]).fit(*rows())
    many = three.decision_function(rows()[0])
    assert (three.classes_[many.argmax(axis=1)] == three.predict(rows()[0])).all()


def test_a_network_is_fitted_from_the_start_and_refuses_another_fit(networks):
    X, y = rows()
    network = networks[3]
    check_is_fitted(network)
    with pytest.raises(NotImplementedError, match=r"FrozenEstimator\(network\) keeps it") as refused:
        network.fit(X, y)
    assert "\n" not in str(refused.value)
    for copy in (clone(network), pickle.loads(pickle.dumps(network))):
        assert (copy.predict(X) == network.predict(X)).all() and copy.classes_.dtype == np.int64
    for name in FITTED_HERE:
        with pytest.raises(NotFittedError):
            clone(FITTED_HERE[name]).predict(X)


def test_a_network_is_saved_loaded_and_written_as_onnx(networks, tmp_path):
    X, _ = rows()
    network = networks[3]
    network.save(tmp_path / "irises.safetensors")
    back = Network.load(tmp_path / "irises.safetensors", classes=network.classes_)
    assert back.digest == network.digest and (back.predict(X) == network.predict(X)).all()
    assert Network.load(tmp_path / "irises.safetensors").classes_.tolist() == ["0", "1", "2"]
    network.to_onnx(tmp_path / "irises.onnx")
    assert b"probabilities" in (tmp_path / "irises.onnx").read_bytes()
    with pytest.raises(ValueError, match="irises.onnx"):
        network.to_onnx(tmp_path / "irises.onnx")
    with pytest.raises(ValueError, match="2 classes, expected 3"):
        Network(network.file, classes=[0, 1])


def test_the_hidden_layer_of_a_network_gives_its_scores(networks):
    X, _ = rows()
    network = networks[3]
    hidden = network.transform(X)
    assert hidden.shape == (150, 8) and (hidden >= 0).all()
    scores = hidden @ network.weights_["dense2.weight"].T + network.weights_["dense2.bias"]
    assert np.abs(scores - network.decision_function(X)).max() < 1e-4


def test_kNN_per_uses_the_hidden_layer_of_a_network_by_default(networks):
    X, y = rows()
    network = networks[3]
    # This user swaps the last two classes.
    own = np.array([0, 2, 1])[y]
    bare, frozen = (KNNPerClassifier(e, k=3).fit(X, own) for e in (network, FrozenEstimator(network)))
    explicit = KNNPerClassifier(FrozenEstimator(network), represent=network.transform, k=3).fit(X, own)
    other = KNNPerClassifier(FrozenEstimator(network), represent=lambda X: X, k=3).fit(X, own)
    assert (bare.predict_proba(X) == explicit.predict_proba(X)).all()
    assert (frozen.predict_proba(X) == explicit.predict_proba(X)).all()
    assert (bare.predict_proba(X) != other.predict_proba(X)).any()
    assert bare.score(X, own) > 0.85 > network.score(X, own)
    assert (network.personalise(X, own, k=3).predict(X) == bare.predict(X)).all()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_keeps_its_names_while_a_personal_part_is_chosen(frame):
    X, y = rows()
    given = frame(dict(zip("abcd", X.T, strict=True)))
    shared = FlyNNClassifier(m=512, rho=16).fit(given, y)
    # Warnings of missing names are errors here.
    own = KNNPerClassifier(FrozenEstimator(shared), k=3).fit(given, y)
    plain = KNNPerClassifier(FrozenEstimator(FlyNNClassifier(m=512, rho=16).fit(X, y)), k=3).fit(X, y)
    assert own.part_ == plain.part_ and (own.predict(given) == plain.predict(X)).all()


@pytest.mark.parametrize("name", FITTED_HERE)
def test_a_seed_can_be_drawn(name):
    X, y = rows()
    one = clone(FITTED_HERE[name])
    fitted = [clone(one).set_params(random_state=state).fit(X, y).predict_proba(X) for state in (7, 7, 8)]
    assert (fitted[0] == fitted[1]).all()
    if name != "KNNPerClassifier":
        assert (fitted[0] != fitted[2]).any()
        drawn = [clone(one).set_params(seed=None).fit(X, y).predict_proba(X) for _ in range(2)]
        assert (drawn[0] != drawn[1]).any()
    assert clone(one).set_params(seed=None).fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_an_estimator_is_one_line(networks, name):
    one = networks[3] if name == "Network" else FITTED_HERE[name]
    assert repr(one).startswith(name) and "\n" not in repr(one) and len(repr(one)) < 110
    if name != "Network":
        seeded = clone(one).set_params(seed=bytes(range(32)))
        assert "\n" not in repr(seeded) and repr(eval(repr(seeded))) == repr(seeded)
        assert eval(repr(seeded)).get_params()["seed"] == bytes(range(32))


@pytest.mark.parametrize("name", FITTED_HERE)
def test_what_an_estimator_does_not_take_is_refused_by_name(name):
    X, y = rows()
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weight'"):
        clone(FITTED_HERE[name]).fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(TypeError, match="[Ss]parse"):
        clone(FITTED_HERE[name]).fit(csr_array(X), y)
