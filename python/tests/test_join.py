"""Tests of what `join` takes in addition to rows: a live page, a trace, and a personal classifier."""

import json
import re
import time
import urllib.request

import numpy as np
import pandas as pd
import pytest
from conftest import Swarm
from flyswarm import FlyNNClassifier, KNNPerClassifier, LeftError, SessionError
from sklearn.frozen import FrozenEstimator

FEDAVG = {
    "task": "fedavg", "network": "mlp", "hidden": [8], "rounds": 20, "data": {"scaling": "standard"},
    "fedavg": {"rate": 0.3, "epochs": 5, "schedule": "constant", "held_out": 0},
    "privacy": {"min_contributors": 1},
}  # fmt: skip


class With:
    """A session whose `join` gets further arguments."""

    def __init__(self, session, **given):
        self.session, self.given = session, given

    def join(self, X, y, **given):
        return self.session.join(X, y, **given, **self.given)


def parts(digits, swarm):
    X, y = digits
    return {name: (X[i::3], y[i::3]) for i, name in enumerate(swarm.keys)}


def test_a_page_shows_the_running_session_and_stays_in_the_result(swarm, digits, tmp_path, capfd):
    made = swarm(features=64, classes=range(10), no_evaluate=True, flynn={"m": 512, "rho": 16})
    seen = []

    def tell(name, event):
        if event.kind == "page":
            seen.append(event)
        if event.kind == "view" and name == "peer0":
            with urllib.request.urlopen(seen[0].fields["url"], timeout=60) as answer:
                seen.append(answer.read().decode())

    trace = tmp_path / "trace.json"
    results = made.join(
        parts(digits, made), tell=tell, through={"peer0": With(made.session, page=0, trace=trace)}
    )
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    url, shown = seen[0].fields["url"], seen[1]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", url) and str(seen[0]) == f"page at {url}"
    assert f"test: page at {url}\n" in capfd.readouterr().err
    kept = results["peer0"].page
    assert shown.startswith("<!doctype html>") and kept.html.startswith("<!doctype html>")
    assert "peer0, one of 3 peers" in kept.html and "Report for peer0" in kept.html
    assert '\\"event\\":\\"receipt\\"' in kept.html or '"event":"receipt"' in kept.html
    assert results["peer1"].page is None
    # The threads of the page's server end shortly after the session.
    deadline = time.monotonic() + 30
    with pytest.raises(OSError):
        while time.monotonic() < deadline:
            urllib.request.urlopen(url, timeout=5).close()
            time.sleep(0.05)
    # The trace has the session and every frame of this peer.
    traced = json.loads(trace.read_text())
    assert traced["toml"] == made.session.text or "roster" in traced["toml"]
    assert sum("header" in entry for entry in traced["log"]) > 10 and trace.stat().st_mode & 0o777 == 0o600


def test_the_button_of_the_page_makes_the_peer_leave(swarm, digits):
    made = swarm(features=64, classes=range(10))

    def leave(event):
        if event.kind == "page":
            url = event.fields["url"]
            origin = re.match("http://[^/]*", url)[0]
            urllib.request.urlopen(
                urllib.request.Request(url + "leave", b"", {"Origin": origin}), timeout=60
            ).close()

    with pytest.raises(LeftError):
        made.session.join(
            *digits, key=made.keys["peer0"], mdns=False, page="127.0.0.1:0", on_event=leave, progress=True
        )


def test_a_trace_of_a_failed_session_is_complete(swarm, digits, tmp_path):
    made = swarm(features=64, classes=range(10))
    alone = {"start_wait_ms": 1000, "no_quorum_timeout_ms": 1000}
    session = type(made.session).new("w", made.keys, features=64, classes=range(10), timing=alone)
    trace = tmp_path / "trace.json"
    with pytest.raises(SessionError):
        session.join(*digits, key=made.keys["peer0"], mdns=False, trace=trace, page=0)
    assert isinstance(json.loads(trace.read_text())["log"], list)


def test_a_page_or_trace_that_cannot_be_made_is_refused_by_name(swarm, digits, tmp_path):
    made = swarm(features=64, classes=range(10))
    (tmp_path / "old.json").write_text("old")
    join = lambda **given: made.session.join(*digits, key=made.keys["peer0"], mdns=False, **given)
    for given, error, problem in (
        ({"page": "here"}, ValueError, '^page is .here., expected a port or ADDRESS:PORT'),
        ({"metrics": "here"}, ValueError, '^metrics is .here., expected a port or ADDRESS:PORT'),
        ({"page": "192.0.2.1:80"}, OSError, "^page 192.0.2.1:80: "),
        ({"trace": tmp_path / "old.json"}, ValueError, "old.json"),
        ({"trace": tmp_path / "missing" / "x.json"}, ValueError, "missing: no such folder"),
        ({"trace": 3}, TypeError, "^trace is 3, expected a path"),
        ({"personalise": True}, ValueError, "^personalise: only with rows, in a session of the task fedavg"),
    ):
        with pytest.raises(error, match=problem):
            join(**given)
    assert (tmp_path / "old.json").read_text() == "old"


def test_a_personal_classifier_is_made_of_the_rows_in_memory(swarm, digits):
    made = swarm(features=[f"p{i}" for i in range(64)], classes=range(10), **FEDAVG)
    X, y = digits[0], digits[1].astype(int)
    # This user's labels swap two classes.
    rows = parts((X, y), made)
    rows["peer1"] = (rows["peer1"][0], np.where(y[1::3] == 3, 5, np.where(y[1::3] == 5, 3, y[1::3])))
    results = made.join(rows, personalise=True)
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    result = results["peer1"]
    network, personal = result.estimator, result.personal
    assert isinstance(personal, KNNPerClassifier) and personal.estimator_.estimator.digest == network.digest
    given = pd.DataFrame(rows["peer1"][0], columns=network.feature_names_in_)
    same = network.personalise(given, rows["peer1"][1])
    # Warnings of missing names are errors here.
    assert (personal.predict_proba(given) == same.predict_proba(given)).all()
    assert personal.predict(given).dtype == np.int64
    with pytest.raises(ValueError, match="feature names"):
        personal.predict(given.rename(columns={"p0": "q"}))
    network._learnt = None
    assert personal.score(given, rows["peer1"][1]) >= max(network.score(given, rows["peer1"][1]), 0.95)


def tables(tmp_path):
    """Writes three tables with texts, missing values and groups. Returns their paths."""
    random = np.random.default_rng(0)
    paths = []
    for peer in range(3):
        kind = random.choice(["red", "green", "blue"], 60)
        size = random.normal(size=60)
        label = np.where((kind == "red") ^ (size > 0.5), "yes", "no")
        size[::20] = np.nan
        who = [f"P{i // 2}" for i in range(60)]
        frame = pd.DataFrame({"size": size, "kind": kind, "who": who, "ill": label})
        paths.append(tmp_path / f"rows{peer}.csv")
        frame.to_csv(paths[-1], index=False)
    return paths


def test_a_personal_classifier_is_made_of_a_table_in_a_file_or_a_frame(tmp_path):
    paths = tables(tmp_path)
    made = Swarm(tmp_path, from_=paths[0], label="ill", group="who", min_rows=1, **FEDAVG)
    frame = pd.read_csv(paths[1])
    rows = {"peer0": (paths[0], None), "peer2": (paths[2], None)}
    rows["peer1"] = frame.drop(columns="ill"), frame["ill"]
    label = {name: With(made.session, personalise=True, label="ill") for name in ("peer0", "peer2")}
    results = made.join(rows, through=label | {"peer1": With(made.session, personalise=True)})
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    for name, path in zip(("peer0", "peer1", "peer2"), paths, strict=True):
        table, result = pd.read_csv(path), results[name]
        own = table.drop(columns="ill")
        # A data frame of the table and a data frame of its features give the same predictions.
        p = result.personal.predict_proba(own)
        features = pd.DataFrame(result.estimator._features(own), columns=result.estimator.feature_names_in_)
        assert (p == result.personal.predict_proba(features)).all() and p.shape == (60, 2)
        groups = table["who"]
        same = result.estimator.personalise(own, table["ill"], groups=groups)
        assert (same.predict_proba(own) == p).all() and same.part_ == result.personal.part_
        assert same.feature_names_in_.tolist() == result.personal.feature_names_in_.tolist()
    shared = FrozenEstimator(results["peer0"].estimator)
    again = KNNPerClassifier(shared, represent=lambda X: X[:, :1]).fit(own, table["ill"])
    assert again.score(own, table["ill"]) > 0.5


def test_a_personal_classifier_of_a_flynn_session_reads_the_table_too(tmp_path):
    paths = tables(tmp_path)
    made = Swarm(tmp_path, from_=paths[0], label="ill", group="who", min_rows=1, no_evaluate=True)
    results = made.join(
        dict(zip(made.keys, [(path, None) for path in paths], strict=True)), label="ill"
    )
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    classifier = results["peer0"].estimator
    assert isinstance(classifier, FlyNNClassifier)
    table = pd.read_csv(paths[0])
    own = KNNPerClassifier(FrozenEstimator(classifier)).fit(table.drop(columns="ill"), table["ill"])
    classifier._learnt = None
    assert own.score(table, table["ill"]) >= classifier.score(table, table["ill"]) - 0.02


def test_a_label_column_is_a_name_or_a_place(swarm, tmp_path):
    made = swarm(features=["2", "b"], classes=["p", "q"])
    path = tmp_path / "rows.csv"
    path.write_text("2,b,3\n1.5,2,p\n3,4,q\n")
    read = lambda label: made.session._rows(path, None, label).digest()
    # A text of digits is the name of a column, not its number.
    assert read("3") == read(3) == read(np.int64(3)) == read("last") == read(None)
    with pytest.raises(ValueError, match='no column named "9"'):
        read("9")
    with pytest.raises(ValueError, match="^label is 0, expected 1 or more"):
        read(0)
    with pytest.raises(TypeError, match="^label is 1.5, expected an int"):
        read(1.5)
