"""Tests of sessions of the task fedavg with trainers in Python."""

import pickle
import re
import sys

import numpy as np
import pytest
from flyswarm import FedAvg, Network, Round, Session, SessionError, _tensors
from flyswarm._training import calls

SETTING = {
    "task": "fedavg", "features": 64, "classes": "0..9", "network": "logistic", "rounds": 3,
    "data": {"scaling": "none"}, "fedavg": {"rate": 0.02, "schedule": "constant", "held_out": 0},
}  # fmt: skip
ZEROS = {"dense1.weight": np.zeros((10, 64)), "dense1.bias": np.zeros(10)}


def step(weights, X, y, rate):
    """Makes a gradient step on the mean cross-entropy of all rows. Also returns loss and accuracy before the
    step."""
    scores = X.astype(float) @ weights["dense1.weight"].T + weights["dense1.bias"]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = odds / odds.sum(axis=1, keepdims=True)
    loss, accuracy = -np.log(p[np.arange(len(y)), y]).mean(), (p.argmax(axis=1) == y).mean()
    p[np.arange(len(y)), y] -= 1
    slopes = {"dense1.weight": p.T @ X / len(y), "dense1.bias": p.mean(axis=0)}
    return {name: weights[name] - rate * slope for name, slope in slopes.items()}, loss, accuracy


class Descent:
    """A trainer with full batches in NumPy."""

    def __init__(self):
        self.weights, self.starts, self.asked = dict(ZEROS), [], []

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = weights
        self.starts.append({name: array.astype(float) for name, array in weights.items()})

    def fit(self, round):
        self.asked.append(round)
        self.weights, loss, accuracy = step(self.weights, round.X, round.y, round.rate)
        return loss, accuracy


def dealt(digits):
    """Returns the rows of three peers, with different numbers of rows."""
    X, y = digits
    cuts = {"peer0": slice(0, 100), "peer1": slice(100, 300), "peer2": slice(300, 600)}
    return {name: (X[cut] / np.float32(16), y[cut]) for name, cut in cuts.items()}


def test_two_trainers_and_the_program_come_to_the_weights_of_plain_federated_averaging(
    swarm, digits, tmp_path, request
):
    made = swarm(**SETTING)
    rows = dealt(digits)
    counts = {name: len(y) for name, (_, y) in rows.items()}
    script = request.config.rootpath.parent / "scripts" / "trainer.py"
    # The trainer of the peer that runs the program returns the weights unchanged.
    command = f"{sys.executable} {script} --same"
    with made.program("peer2", rows["peer2"], tmp_path, "--trainer", command) as tell:
        trainers = {name: Descent() for name in ("peer0", "peer1")}
        through = {name: FedAvg(made.session, trainer) for name, trainer in trainers.items()}
        results = made.join({name: rows[name] for name in trainers}, tell, through)
    assert all(not isinstance(result, BaseException) for result in results.values()), results

    weights = trainers["peer0"].starts[0]
    for _ in range(3):
        new = {"peer2": weights}
        for name in trainers:
            X, y = rows[name]
            new[name], _, _ = step(weights, X, y.astype(int), 0.02)
        share = {name: count / sum(counts.values()) for name, count in counts.items()}
        weights = {key: sum(share[name] * new[name][key] for name in new) for key in weights}
    for name, trainer in trainers.items():
        assert [(asked.number, asked.rounds) for asked in trainer.asked] == [(1, 3), (2, 3), (3, 3)]
        assert (trainer.asked[0].X == rows[name][0]).all()
        assert (trainer.asked[0].y == rows[name][1].astype(int)).all()
        network, receipt = results[name]
        assert network.weights_.keys() == weights.keys() == trainer.weights.keys()
        for key, plain in weights.items():
            # Sums are in fixed point with steps of 2^-27.
            assert np.abs(network.weights_[key] - plain).max() < 1e-5
            assert (trainer.weights[key] == network.weights_[key]).all(), "the trainer has the last weights"
        figures = results[name].figures
        assert len(figures["rounds"]) == 3 and 0 <= figures["scores"]["accuracy"] <= 1
        assert receipt["rounds"] == figures["rounds"]
    assert results["peer0"].estimator.digest == results["peer1"].estimator.digest


def test_figures_that_a_trainer_does_not_say_are_those_of_its_new_weights(swarm, digits):
    made = swarm(**{**SETTING, "rounds": 1})
    rows = dealt(digits)

    class Silent(Descent):
        def fit(self, round):
            super().fit(round)

    trainers = {name: Silent() for name in rows}
    results = made.join(rows, through={name: FedAvg(made.session, trainers[name]) for name in rows})
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    expected = 0.0
    for _name, trainer in trainers.items():
        asked = trainer.asked[0]
        new, _, _ = step(trainer.starts[0], asked.X, asked.y, asked.rate)
        _, loss, _ = step(new, asked.X, asked.y, asked.rate)
        expected += loss * len(asked.y) / 600
    assert abs(results["peer0"].figures["rounds"][0]["loss"] - expected) < 2e-3


def test_without_a_trainer_every_peer_gets_the_network_that_predicts(swarm, digits):
    made = swarm(**{**SETTING, "rounds": 5, "fedavg": {"rate": 0.1, "schedule": "constant", "held_out": 0}})
    rows = dealt(digits)
    results = made.join(rows)
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    network = results["peer1"].estimator
    assert isinstance(network, Network) and len({r.estimator.digest for r in results.values()}) == 1
    X, y = (np.concatenate(part) for part in zip(*rows.values(), strict=True))
    scores = X @ network.weights_["dense1.weight"].T + network.weights_["dense1.bias"]
    assert np.abs(network.decision_function(X) - scores).max() < 1e-3
    assert network.score(X, y) > 0.8
    proba = network.predict_proba(X)
    assert (network.classes_[proba.argmax(axis=1)] == network.predict(X)).all()
    assert np.abs(proba.sum(axis=1) - 1).max() < 1e-6
    again = pickle.loads(pickle.dumps(network))
    assert (again.predict(X) == network.predict(X)).all()
    with pytest.raises(ValueError, match="63 features"):
        network.predict(X[:, 1:])
    with pytest.raises(ValueError, match="NaN"):
        network.predict(X * np.float32(np.nan))


class Bad(Descent):
    """A trainer that returns a wrong value after the first round."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def get_weights(self):
        return self.change(dict(self.weights)) if self.asked else self.weights


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda w: w | {"dense1.bias": np.full(10, np.nan)}, r"in round 1 has NaN as dense1.bias\[0\]"),
        (lambda w: w | {"dense1.bias": np.full(10, 1e300)}, r"in round 1 has inf as dense1.bias\[0\]"),
        (
            lambda w: w | {"dense1.weight": np.zeros((64, 10))},
            r"has dense1.weight as .*64,10\], expected .*10, 64\]",
        ),
        (lambda w: {"dense1.weight": w["dense1.weight"]}, "in round 1 has no tensor dense1.bias"),
        (
            lambda w: w | {"dense9.bias": np.zeros(1)},
            'in round 1 has a tensor "dense9.bias" that the model does not have',
        ),
        (lambda w: w | {"dense1.bias": ["one"]}, "the trainer's dense1.bias is not an array of numbers"),
    ],
)
def test_weights_that_are_not_those_of_the_network_name_the_tensor(swarm, digits, change, problem):
    made = swarm(**SETTING)
    rows = dealt(digits)
    through = {"peer1": FedAvg(made.session, Bad(change))}
    with pytest.raises(ValueError, match=problem):
        raise made.join(rows, through=through)["peer1"]
    # The trainer's weights are also checked before any message is sent.
    def started(event):
        raise AssertionError(event.kind)

    wrong = Descent()
    wrong.weights = change(dict(ZEROS))
    with pytest.raises(ValueError, match=problem.replace("in round 1 ", "")):
        FedAvg(made.session, wrong).join(*rows["peer0"], key=made.keys["peer0"], mdns=False, on_event=started)


@pytest.mark.parametrize("where", ["fit", "get_weights", "set_weights"])
def test_an_exception_in_a_trainer_ends_the_session_with_it(swarm, digits, where):
    made = swarm(**SETTING)

    class Failing(Descent):
        pass

    def fail(self, *args):
        if where == "get_weights" and not self.asked:
            return self.weights
        raise KeyError(where)

    setattr(Failing, where, fail)
    with pytest.raises(KeyError, match=where):
        raise made.join(dealt(digits), through={"peer1": FedAvg(made.session, Failing())})["peer1"]


@pytest.mark.parametrize("figures", [(1.0,), "ab", 3, {"loss": 1.0}])
def test_what_fit_gives_must_be_a_pair(figures):
    trainer = Descent()
    trainer.fit = lambda round: figures
    order = '{"round": 1, "rounds": 1, "rate": 0.1, "epochs": 1, "steps": 0, "batch": 1}'
    with pytest.raises(TypeError, match="expected None or a pair"):
        calls(trainer)(order, np.zeros((1, 64), np.float32), np.zeros(1, np.int64), _tensors.write(ZEROS))


def test_what_is_no_trainer_and_what_is_no_such_session_are_refused(swarm, digits):
    made = swarm(features=64, classes="0..9", flynn={"m": 512, "rho": 16}, no_evaluate=True)
    with pytest.raises(ValueError, match="a trainer works only with the task fedavg, not with flynn"):
        FedAvg(made.session, Descent()).join(*digits, key=made.keys["peer0"], mdns=False)
    with pytest.raises(TypeError, match="has no get_weights"):
        FedAvg(made.session, object())


def test_a_round_deals_every_row_into_batches():
    X, y = np.zeros((10, 1), np.float32), np.zeros(10, np.int64)
    rng = np.random.default_rng()
    batches = list(Round(1, 1, X, y, rate=0.1, epochs=2, steps=0, batch=4).batches(rng))
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2]
    assert sorted(np.concatenate(batches[:3])) == list(range(10))
    assert len(list(Round(1, 1, X, y, rate=0.1, epochs=2, steps=7, batch=4).batches(rng))) == 7


def test_weights_of_the_last_round_are_kept_if_the_session_then_fails(swarm, digits, tmp_path):
    made = swarm(**SETTING)
    text = re.sub(r"(?m)^(no_quorum_timeout_ms|view_timeout_ms) = .*$", r"\1 = 4000", made.session.text)
    made.session = Session(text)

    class Failing(Descent):
        def fit(self, round):
            if round.number == 3:
                raise ArithmeticError("no step")
            return super().fit(round)

    trainers = {"peer0": Descent(), "peer1": Descent(), "peer2": Failing()}
    through = {name: FedAvg(made.session, trainer) for name, trainer in trainers.items()}
    results = made.join(dealt(digits), through=through)
    assert isinstance(results["peer2"], ArithmeticError)
    for name in ("peer0", "peer1"):
        assert isinstance(results[name], SessionError), results[name]
        said = str(results[name])
        assert "the weights after round 2 are in" in said and "--initial" in said, said
        (kept,) = (tmp_path / name).glob("test-*.round")
        assert str(kept) in said
        # The file has the weights that round 3 started from.
        found = Network.load(kept).weights_
        start = trainers[name].starts[-1]
        assert all(np.allclose(found[each], start[each]) for each in ZEROS)
    session = Session.new("next", made.keys, **SETTING, initial=kept)
    assert session.show()["fedavg"]["initial"] == Network.load(kept).digest


def test_a_session_with_a_result_keeps_no_weights_of_rounds(swarm, digits, tmp_path):
    made = swarm(**SETTING)
    results = made.join(dealt(digits))
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    assert not list(tmp_path.rglob("*.round"))
