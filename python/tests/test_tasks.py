"""Tests of the results of sessions of the other tasks."""

import numpy as np
from flyswarm import FlyNNClassifier, Labels, Network
from sklearn.base import clone


def parts(made, X, y):
    """Returns the rows by peer. Each of three peers has every third row."""
    return {name: (X[i :: len(made.keys)], y[i :: len(made.keys)]) for i, name in enumerate(made.keys)}


def joined(made, rows):
    results = made.join(rows)
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    return results


def test_xclp_labels_every_row_of_every_peer(swarm, digits):
    X, y = digits[0][:240], digits[1][:240]
    known = np.arange(240) % 4 == 0
    given = np.where(known, y, "-1")
    made = swarm(
        task="xclp", features=64, classes="0..9", xclp={"k": 5, "bits": 256, "alpha": 0.8},
        privacy={"min_contributors": 1},
    )
    rows = parts(made, X, given)
    results = joined(made, rows)
    right = total = 0
    for i, name in enumerate(made.keys):
        found = results[name].estimator
        own, truth = rows[name][1], y[i::3]
        assert isinstance(found, Labels) and found.classes_.tolist() == [str(i) for i in range(10)]
        assert len(found.transduction_) == len(found.confidence_) == len(own)
        assert (found.inferred_ <= (own == "-1")).all(), "a label that was given is not inferred"
        assert set(found.transduction_) <= {*found.classes_, ""}
        assert ((found.transduction_ == "") == ~(found.inferred_ | (own != "-1"))).all()
        right += (found.transduction_ == truth)[own == "-1"].sum()
        total += (own == "-1").sum()
    assert right / total > 0.5


def test_a_network_that_learns_from_labels_that_are_found_is_the_same_at_every_peer(swarm, digits):
    X, y = digits[0][:240], digits[1][:240]
    made = swarm(
        task="fedavg-xclp", features=64, classes="0..9", network="logistic", rounds=2, after=1,
        xclp={"k": 5, "bits": 256, "alpha": 0.8}, privacy={"min_contributors": 1},
    )  # fmt: skip
    given = [label if i % 4 == 0 else None for i, label in enumerate(y)]
    results = joined(made, {name: (X[i::3], given[i::3]) for i, name in enumerate(made.keys)})
    assert len({result.estimator.digest for result in results.values()}) == 1
    one = results["peer0"]
    assert isinstance(one.estimator, Network) and one.estimator.predict(X).shape == (240,)
    assert len(one.figures["rounds"]) == 2


def test_tune_gives_the_best_setting_as_an_estimator_that_can_be_fitted(swarm, digits):
    X, y = digits
    made = swarm(
        task="tune", features=64, classes="0..9", flynn={"m": 256, "rho": 16}, candidates=2, tune={"folds": 2}
    )
    assert made.session.task == "tune"
    results = joined(made, parts(made, X, y))
    one = results["peer0"]
    assert isinstance(one.estimator, FlyNNClassifier) and one.estimator.get_params() == one.figures
    assert all(result.figures == one.figures for result in results.values())
    assert one.figures["m"] <= 256 and one.figures["rho"] < one.figures["m"]
    text = one.file.decode()
    for name in ("m", "s", "rho"):
        assert f"\n{name} = {one.figures[name]}\n" in text
    assert f'score = "{one.figures["readout"]}"' in text and one.figures["scaling"] in text
    assert clone(one.estimator).fit(X, y).score(X, y) > 0.5


def test_sketch_gives_the_common_sketch_and_this_peers_distance(swarm, digits):
    X, _ = digits
    made = swarm(task="sketch", features=64, sketch={"rows": 50, "range": 16}, open_distances=True)
    rows = {name: (X[i::3], None) for i, name in enumerate(made.keys)}
    results = joined(made, rows)
    for _name, result in results.items():
        assert result.estimator is None
        assert result.figures["records"] == 600
        assert (result.figures["rows"], result.figures["range"]) == (50, 16)
        assert np.sum(result.figures["counters"]) == 600 * 50
        assert result.figures["published"].keys() == made.keys.keys()


def test_a_witness_has_a_receipt_and_nothing_else(swarm, digits):
    X, y = digits[0][:240], digits[1][:240]
    made = swarm(
        4, task="xclp", features=64, classes="0..9", xclp={"k": 5, "bits": 256, "alpha": 0.8},
        privacy={"min_contributors": 1},
    )  # fmt: skip
    rows = dict(parts(made, X, np.where(np.arange(240) % 4 == 0, y, "-1")), peer3=(None, None))
    results = joined(made, rows)
    witness = results["peer3"]
    assert (witness.estimator, witness.file, witness.figures) == (None, b"", {})
    assert witness.receipt["peer"] == "peer3"
