"""Tests of models of any kind: lists of tensors, and sessions that train them."""

import json

import numpy as np
import pytest
from flyswarm import FedAvg, Identity, Session, SessionError, Weights, _tensors, declare, local

PEERS = ("east", "north", "south")


class Mixed:
    """A model with tensors of several types. Training adds the peer's number to all of them."""

    def __init__(self, peer=0):
        self.peer, self.starts = peer, []
        self.weights = {
            "Layer 1.weight": np.array([[0.5, -1.0], [2.0, 0.25]], "f4"),
            "bn.running_var": np.array([3000.0, 1.0], "f8"),
            "bn.num_batches_tracked": np.array(5),
            "half": np.array([1.5, -2.5], "f2"),
            "mask": np.array([True, False]),
            "head.bias": np.array([10.0], "f4"),
        }

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.starts.append(weights)
        self.weights = {name: value.copy() for name, value in weights.items()}

    def fit(self, round):
        assert len(round.X) == len(round.y) == 20
        for name, value in self.weights.items():
            self.weights[name] = (value + np.asarray(self.peer, value.dtype)).astype(value.dtype)
        return 1.0 / round.number, 0.5


def session_of(folder, declared, **given):
    keys = {name: Identity.new(folder / f"{name}.key") for name in PEERS}
    settings = {**declared, "rounds": 2, **given}
    return Session.new("own", keys, task="fedavg", features=2, classes=["a", "b"], fedavg=settings)


def rows():
    return {name: (np.full((20, 2), at, "f4"), ["a", "b"] * 10) for at, name in enumerate(PEERS)}


def test_tensors_are_declared_by_their_types_and_rules_by_names():
    declared = declare(Mixed(), {"head.*": "keep-own"})
    found = {each["name"]: (each["dtype"], each["rule"], each["shape"]) for each in declared["tensors"]}
    assert found == {
        "Layer 1.weight": ("F32", "average", [2, 2]),
        "bn.running_var": ("F64", "average", [2]),
        "bn.num_batches_tracked": ("I64", "first", []),
        "half": ("F16", "average", [2]),
        "mask": ("BOOL", "first", [2]),
        "head.bias": ("F32", "keep-own", [1]),
    }
    ranges = {each["name"]: each.get("range") for each in declared["tensors"]}
    assert ranges["bn.running_var"] == 65536 and ranges["Layer 1.weight"] == 16
    with pytest.raises(ValueError, match="the rule for 'tail' fits no tensor"):
        declare(Mixed(), {"tail": "first"})
    with pytest.raises(ValueError, match="the rule of 'half' is 'mean', expected one of average"):
        declare(Mixed(), {"half": "mean"})
    with pytest.raises(TypeError, match="dict has no tensors"):
        declare({})
    with pytest.raises(TypeError, match="name has the type <U3, expected one of"):
        declare({"name": np.array(["abc"])})


def test_bfloat16_rounds_to_even_and_comes_back():
    values = np.array([1.0, 1.00390625, 1.01171875, -3e38, np.inf, np.nan, 1e-45], "f4")
    found = _tensors.read(_tensors.write({"w": values}, {"w": "BF16"}))["w"]
    expected = np.array([1.0, 1.0, 1.015625, -3.0042e38, np.inf, np.nan, 0.0], "f4")
    assert np.allclose(found, expected, rtol=1e-3, equal_nan=True)
    assert (_tensors.read(_tensors.write({"w": found}, {"w": "BF16"}))["w"][:4] == found[:4]).all()


def test_a_model_of_any_tensors_is_trained_and_equal_at_every_peer(tmp_path):
    declared = declare(Mixed(), {"head.*": "keep-own"})
    session = session_of(tmp_path, declared)
    trainers = {name: Mixed(at) for at, name in enumerate(PEERS)}
    results = local(session, rows(), trainers=trainers)
    weights = results[0].estimator
    assert isinstance(weights, Weights)
    assert {joined.estimator.digest for joined in results} == {weights.digest}
    # Each of two rounds adds the mean of 0, 1 and 2.
    assert np.allclose(weights.weights_["Layer 1.weight"], Mixed().weights["Layer 1.weight"] + 2, atol=1e-5)
    assert np.allclose(weights.weights_["bn.running_var"], [3002, 3], atol=1e-3)
    assert weights.weights_["bn.running_var"].dtype == np.float64
    assert np.allclose(weights.weights_["half"], [3.5, -0.5], atol=1e-3)
    assert weights.weights_["bn.num_batches_tracked"] == 5
    assert weights.weights_["mask"].tolist() == [True, False]
    for at, name in enumerate(PEERS):
        trainer = trainers[name]
        assert trainer.weights["head.bias"] == 10 + 2 * at, "its own, also at the end"
        assert (trainer.weights["half"] == weights.weights_["half"]).all()
        assert all(start["bn.num_batches_tracked"] == 5 for start in trainer.starts)
    assert [each["loss"] for each in results[0].figures["rounds"]] == [1.0, 0.5]
    assert weights.classes_ == ["a", "b"]
    weights.save(tmp_path / "w.safetensors")
    assert Weights.load(tmp_path / "w.safetensors").digest == weights.digest
    assert weights.scale([[1, 2]]).shape == (1, 2)
    with pytest.raises(ValueError, match="rows have 3 features, the model takes 2"):
        weights.scale([[1, 2, 3]])


def test_the_first_weights_come_from_the_file_if_a_trainer_has_others(tmp_path):
    declared = declare(Mixed())
    session = session_of(tmp_path, declared)
    others = {name: Mixed(at) for at, name in enumerate(PEERS)}
    for trainer in others.values():
        trainer.weights["half"] = np.array([9.0, 9.0], "f2")
    with pytest.raises(ValueError, match=r"fedavg.initial: the session starts from a network file"):
        local(session, rows(), trainers=others)
    declared.save(tmp_path / "model.safetensors")
    results = local(session, rows(), trainers=others, initial=tmp_path / "model.safetensors")
    assert np.allclose(results[0].estimator.weights_["half"], [3.5, -0.5], atol=1e-3)


def test_a_trainer_without_figures_or_with_other_tensors_is_refused(tmp_path):
    declared = declare(Mixed())
    session = session_of(tmp_path, declared)
    trainer = Mixed()
    trainer.weights.pop("half")
    key = Identity.new(tmp_path / "x.key")
    with pytest.raises(ValueError, match="has no tensor half"):
        FedAvg(session, trainer).join(*rows()["north"], key=key, mdns=False)

    class Silent(Mixed):
        def fit(self, round):
            return None

    trainers = {"east": Mixed(), "north": Silent(), "south": Mixed()}
    with pytest.raises((ValueError, SessionError), match="round 1 gave no loss and accuracy"):
        local(session, rows(), trainers=trainers)


def test_a_list_of_tensors_can_be_changed_and_is_what_the_session_shows(tmp_path):
    declared = declare(Mixed())
    declared["tensors"][0]["range"] = 64.0
    session = session_of(tmp_path, declared)
    shown = json.loads(json.dumps(session.settings if hasattr(session, "settings") else session._shown))
    assert shown["fedavg"]["tensors"][0]["range"] == 64
