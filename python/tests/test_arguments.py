"""Tests that arguments are passed with their types, and that errors name them in Python's words."""

import asyncio
import inspect
import tempfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import Swarm
from flyswarm import (
    FedAvg,
    FlyNNClassifier,
    Identity,
    KNNPerClassifier,
    LabelPropagation,
    Session,
    _flyswarm,
    local,
    simulate,
)
from flyswarm._arguments import address, in_words_of_python, multiple, names, plain
from sklearn.datasets import load_iris

X, Y = load_iris(return_X_y=True)
COMMAS = ["<5,000", "5,000+"]


@pytest.fixture(scope="module")
def keys():
    """Returns the peer ids of three keys."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: Identity.new(f"{folder}/{name}").peer_id for name in ("north", "south", "east")}


@pytest.mark.parametrize(
    "classes",
    [
        COMMAS,
        tuple(COMMAS),
        np.array(COMMAS),
        pd.Series(COMMAS),
        pd.Index(COMMAS),
        pl.Series(COMMAS),
        (c for c in COMMAS),
    ],
    ids=lambda classes: type(classes).__module__ + "." + type(classes).__name__,
)
def test_names_with_commas_stay_one_class_each(keys, classes):
    assert Session.new("w", keys, features=2, classes=classes).classes == COMMAS


def test_features_with_commas_and_columns_of_a_frame_stay_one_feature_each(keys):
    columns = ["age,years", 'say "bmi"', "\\", "täglich \U0001f600"]
    frame = pd.DataFrame(columns=columns)
    for features in (columns, frame.columns, iter(columns)):
        data = Session.new("w", keys, features=features, classes=["a", "b"]).show()["data"]
        assert (data["features"], data["columns"]) == (4, columns)


def test_labels_of_any_type_are_classes(keys):
    new = lambda classes: Session.new("w", keys, features=2, classes=classes).classes
    assert new([0, 1, 2]) == new(np.arange(3)) == new(range(3)) == new("0..2") == ["0", "1", "2"]
    assert new([False, True]) == ["False", "True"]
    assert new({"b", "a"}) == new("a,b") == ["a", "b"]
    assert new({10, 9}) == ["9", "10"]
    with pytest.raises(TypeError, match="classes is 3, expected a list of names"):
        new(3)
    with pytest.raises(ValueError, match="classes has a missing name"):
        new(["a", None])
    with pytest.raises(ValueError, match="data.classes"):
        new(["a"])


def test_sections_take_values_of_python(keys):
    scaling = {"range": {"lo": np.float64(0.0), "hi": 16}}
    session = Session.new(
        "w", keys, features=2, classes="a,b", data={"scaling": scaling}, set={"min_peers": np.int64(3)},
        privacy={"min_contributors": 2}, flynn={"m": "256d"},
    )  # fmt: skip
    shown = session.show()
    assert shown["data"]["scaling"] == {"range": {"lo": 0.0, "hi": 16.0}}
    assert shown["flynn"]["m"] == 512 and shown["privacy"]["min_contributors"] == 2
    for wrong, problem in (({"flynn": 3}, "flynn is 3"), ({"data": {"scaling": b""}}, "the type bytes")):
        with pytest.raises(TypeError, match=problem):
            Session.new("w", keys, features=2, classes="a,b", **wrong)


@pytest.mark.parametrize(
    ("value", "own"),
    [
        (np.bool_(False), False), (np.int64(3), 3), (np.float32(0.5), 0.5), (np.str_("a"), "a"),
        ((1, 2), [1, 2]),
        (np.arange(2), [0, 1]), (pd.Index(["a"]), ["a"]), ({"a": {"b": np.int8(1)}}, {"a": {"b": 1}}),
    ],
)  # fmt: skip
def test_values_become_those_of_python(value, own):
    found = plain(value)
    assert found == own and type(found) is type(own)


def test_values_that_no_file_has_are_refused():
    refused = ((float("nan"), ValueError), (2**63, ValueError), (b"", TypeError), (None, TypeError))
    for value, error in refused:
        with pytest.raises(error):
            plain(value)


def test_a_wrong_keyword_is_a_type_error_with_the_nearest_right_one(keys):
    session = Session.new("w", keys, features=4, classes="a,b")
    calls = {
        "features": lambda: Session.new("w", keys, feature=4),
        "no_evaluate": lambda: Session.new("w", keys, features=4, no_evaluation=True),
        "network_key": lambda: session.join(X, Y, key="k", networkkey=b""),
        "on_event": lambda: asyncio.run(session.join_async(X, Y, key="k", onevent=print)),
        "listen": lambda: session.doctor(lisen=["x"]),
        "small": lambda: simulate("churn.toml", smal=True),
        "hold_out": lambda: session.join(X, Y, key="k", holdout=3),
        "addresses": lambda: FedAvg(session, Trainer()).join(X, Y, key="k", address={}),
        "personalise": lambda: local(session, [], personalize=True),
        "rows": lambda: session.forecast(row=3),
        "path": lambda: Session.load(paths="w.toml"),
    }
    for right, call in calls.items():
        with pytest.raises(TypeError, match=f"unexpected keyword argument .*Did you mean '{right}'"):
            call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'xyzzy'$"):
        Session.new("w", keys, xyzzy=1)
    assert "no_evaluate" in inspect.signature(Session.new).parameters
    assert "hold_out" in inspect.signature(Session.join).parameters


def test_a_value_of_another_type_or_range_is_named_and_no_command_is_run(keys, monkeypatch):
    session = Session.new("w", keys, features=4, classes="a,b")
    monkeypatch.setattr(_flyswarm, "call", None)
    for error, problem, call in (
        (TypeError, "^wait is 1.5, expected an int", lambda: session.doctor("k", wait=1.5)),
        (ValueError, "^wait is 0, expected 1 to 3600", lambda: session.doctor("k", wait=0)),
        (TypeError, "^listen is 3, expected a list of names", lambda: session.doctor("k", listen=3)),
        (TypeError, "^no_mdns is 1, expected a bool", lambda: session.doctor("k", no_mdns=1)),
        (TypeError, "^out is 3, expected a path", lambda: session.doctor("k", out=3)),
        (ValueError, "^label is 0, expected 1 or more", lambda: session.doctor("k", data="x.csv", label=0)),
        (TypeError, "^rows is '20', expected an int", lambda: session.forecast("20")),
        (ValueError, "^rows is 0, expected 1 or more", lambda: session.forecast(0)),
        (TypeError, "^path is 3, expected a path", lambda: Session.load(3)),
        (TypeError, "^path is None, expected a path", lambda: Session.load(None)),
        (TypeError, "^seed is 'x', expected an int", lambda: simulate("churn.toml", seed="x")),
        (ValueError, "^seed is -1, expected", lambda: simulate("churn.toml", seed=-1)),
        (TypeError, "^small is 'no', expected a bool", lambda: simulate("churn.toml", small="no")),
        (ValueError, "^force: needs out", lambda: simulate("churn.toml", force=True)),
        (ValueError, "^calibrate: only with a scenario file", lambda: simulate({"peers": 3}, calibrate=True)),
        (TypeError, "^scenario is 3, expected a path", lambda: simulate(3)),
        (TypeError, "^path is 3, expected a path", lambda: Identity.new(3)),
    ):
        with pytest.raises(error, match=problem):
            call()


def test_each_argument_of_join_is_checked_by_name_before_anything_is_read(keys):
    session = Session.new("w", keys, features=4, classes="a,b")
    port = "expected a port or ADDRESS:PORT"
    for error, problem, given in (
        (TypeError, "^key is 3, expected a path", {"key": 3}),
        (TypeError, "^key is None, expected a path", {"key": None}),
        (TypeError, "^on_event is 3, expected a function", {"on_event": 3}),
        (TypeError, "^progress is 'yes', expected a bool", {"progress": "yes"}),
        (TypeError, "^mdns is 0, expected a bool", {"mdns": 0}),
        (TypeError, "^strict is None, expected a bool", {"strict": None}),
        (TypeError, "^yes is 'no', expected a bool", {"yes": "no"}),
        (TypeError, "^personalise is 1, expected a bool", {"personalise": 1}),
        (TypeError, "^addresses is .'x'., expected a mapping", {"addresses": ["x"]}),
        (TypeError, "^listen is 3, expected a list of names", {"listen": 3}),
        (TypeError, "^network_key is of the type str, expected bytes", {"network_key": "k" * 32}),
        (ValueError, "^network_key has 3 bytes, expected 32", {"network_key": b"key"}),
        (TypeError, "^state is 3, expected a path", {"state": 3}),
        (TypeError, "^initial is 3, expected a path", {"initial": 3}),
        (TypeError, "^trace is 3, expected a path", {"trace": 3}),
        (TypeError, "^map is 3, expected a path", {"map": 3}),
        (TypeError, "^drop is 3, expected a list of names", {"drop": 3}),
        (TypeError, "^dataset is 3, expected a str", {"dataset": 3}),
        (TypeError, "^budget is True, expected a number", {"budget": True}),
        (ValueError, "^budget is 'much', expected a number", {"budget": "much"}),
        (ValueError, "^budget is nan, expected a number", {"budget": float("nan")}),
        (ValueError, "^hold_out is 51, expected 1 to 50", {"hold_out": 51}),
        (TypeError, "^page is 0.5, expected an int", {"page": 0.5}),
        (ValueError, "^page is 65536, expected 0 to 65535", {"page": 65536}),
        (ValueError, f"^page is 'localhost:80', {port}", {"page": "localhost:80"}),
        (ValueError, f"^metrics is '127.0.0.1', {port}", {"metrics": "127.0.0.1"}),
        (ValueError, f"^metrics is '::1:80', {port}", {"metrics": "::1:80"}),
        (ValueError, f"^metrics is '.::1:80', {port}", {"metrics": "[::1:80"}),
    ):
        with pytest.raises(error, match=problem):
            session.join(X, Y, **{"key": "missing.key", **given})


def test_a_budget_has_at_most_six_decimal_places(swarm):
    made = swarm(features=4, classes=[0, 1, 2])
    for budget in (1e-7, 0.1234567, -1, 1001):
        with pytest.raises(ValueError, match="^budget: .*at most six decimal places"):
            made.session.join(X, Y, key=made.keys["peer0"], mdns=False, dataset="irises", budget=budget)
    with pytest.raises(ValueError, match="^budget: needs dataset"):
        made.session.join(X, Y, key=made.keys["peer0"], mdns=False, budget="0.5")


def test_an_address_is_a_port_or_has_one():
    for given, found in (
        (0, ("127.0.0.1", 0)), (np.int64(9464), ("127.0.0.1", 9464)), ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:80", ("::1", 80)),
    ):  # fmt: skip
        ip, port = address("page", given)
        assert (str(ip), port) == found


def test_a_path_that_looks_like_an_option_is_a_path(keys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = Session.new("w", keys, features=4, classes="a,b")
    session.save("--json")
    assert Session.load("--json").text == session.text
    with pytest.raises(ValueError, match="No such file"):
        simulate("--small")


class Trainer:
    """A trainer whose methods are never called."""

    get_weights = set_weights = fit = lambda self, *given: {}


def test_every_argument_of_a_new_session_reaches_the_command(keys, tmp_path):
    new = lambda task="flynn", **given: Session.new("w", keys, task, features=4, **given).show()
    assert new(classes="a,b", no_evaluate=True).get("evaluate") is None
    assert new("fedavg", classes="a,b", network="mlp", hidden=[16, 8], rounds=3)["fedavg"]["rounds"] == 3
    assert new("sketch", open_distances=True)["sketch"]["open_distances"] is True
    assert new("xclp", classes="a,b", balance=True)["xclp"]["balance"] is True
    with pytest.raises(ValueError, match="candidates"):
        new(classes="a,b", candidates=3)
    with pytest.raises(ValueError, match="epsilon"):
        new(classes="a,b", epsilon=-1)


def test_errors_of_the_program_name_arguments_of_python():
    said = "--dataset NAME: a private session needs --few-rows or --from FILE, not a-b--c or --"
    assert (
        in_words_of_python(said)
        == "dataset NAME: a private session needs few_rows or from_ FILE, not a-b--c or --"
    )


@pytest.mark.parametrize(
    ("estimator", "error", "problem"),
    [
        (FlyNNClassifier(m=-1), ValueError, "^m is -1, expected 1 or more"),
        (FlyNNClassifier(m=2.5), TypeError, "^m is 2.5, expected an int"),
        (FlyNNClassifier(m=True), TypeError, "^m is True, expected an int"),
        (FlyNNClassifier(m="256"), ValueError, "^m is '256', expected an int or a multiple such as"),
        (FlyNNClassifier(m="0d"), ValueError, "^m is '0d'"),
        (FlyNNClassifier(rho=-3), ValueError, "^rho is -3"),
        (FlyNNClassifier(s=-1), ValueError, "^s is -1"),
        (FlyNNClassifier(bins=-1), ValueError, "^bins is -1, expected 2 to 65535"),
        (FlyNNClassifier(bins=70_000), ValueError, "^bins is 70000, expected 2 to 65535"),
        (LabelPropagation(bits=-64), ValueError, "^bits is -64"),
        (LabelPropagation(neighbours=-1), ValueError, "^neighbours is -1"),
        (LabelPropagation(power=1.5), TypeError, "^power is 1.5, expected an int"),
        (LabelPropagation(steps=-1), ValueError, "^steps is -1"),
        (KNNPerClassifier(k=-1), ValueError, "^k is -1, expected 1 or more"),
        (KNNPerClassifier(cv=-1), ValueError, "^cv is -1, expected 2 or more"),
    ],
    ids=str,
)
def test_a_parameter_of_another_range_or_type_is_named(estimator, error, problem):
    with pytest.raises(error, match=problem):
        estimator.fit(X, Y)


def test_multiples_mean_what_they_mean_in_a_session_file(keys):
    given = {"m": "100.5d", "s": "0.1d", "rho": "0.01m"}
    shown = Session.new("w", keys, features=4, classes="a,b", flynn=given).show()["flynn"]
    setting = FlyNNClassifier(**given).fit(X, Y).model_.setting
    assert {name: shown[name] for name in given} == {name: setting[name] for name in given}
    assert (setting["m"], setting["s"], setting["rho"]) == (3216, 3, 32)
    dense = FlyNNClassifier(m="10d", rho=4, densify=True, scaling="none").fit(X[:, :3], Y)
    assert dense.model_.setting["m"] == 40
    assert multiple("s", "0.001d", "d", 32, 2) == 2
    assert names("classes", np.array(["a"])) == ["a"]


def test_a_column_is_dropped_and_a_map_renames_others(swarm, tmp_path):
    made = swarm(features=["a", "b"], classes=["0", "1"])
    frame = pd.DataFrame({"b": [1.0, 2.0], "id": [7.0, 8.0], "a": [3.0, 4.0]})
    read = lambda X, **given: made.session._rows(X, [0, 1], None, **given).digest()
    plain = read(frame[["a", "b"]])
    assert read(frame, drop=["id"]) == read(frame, drop="id") == plain
    with pytest.raises(ValueError, match="id"):
        read(frame)
    (tmp_path / "map.toml").write_text('drop = ["id"]\n[rename]\n"A" = "a"\n')
    assert read(frame.rename(columns={"a": "A"}), map=tmp_path / "map.toml") == plain
    (tmp_path / "bad.toml").write_text("hold_out = 10\n")
    with pytest.raises(ValueError, match="hold_out in the map file"):
        read(frame, map=tmp_path / "bad.toml")


def test_hold_out_measures_labels_that_only_this_peer_knows(swarm, digits, tmp_path_factory):
    # The session id determines which rows are held out.
    made = swarm(
        number=1, task="xclp", features=64, classes=range(10), xclp={"k": 5, "bits": 256, "alpha": 0.8},
        privacy={"min_contributors": 1},
    )  # fmt: skip
    X, y = digits[0][:240], digits[1][:240].astype(int)
    rows = {name: (X[i::3], y[i::3]) for i, name in enumerate(made.keys)}
    results = made.join(rows, hold_out=20)
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    held = results["peer0"].figures["held_out"]["swarm"]
    assert 10 <= held["rows"] <= 20 and held["accuracy"]["value"] > 0.5
    assert results["peer0"].estimator.transduction_.dtype == np.int64
    flynn = Swarm(tmp_path_factory.mktemp("flynn"), features=64, classes=range(10))
    for given, problem in (
        ({"hold_out": 0}, "hold_out is 0"),
        ({"hold_out": 10}, "^hold_out: with the task flynn"),
    ):
        with pytest.raises(ValueError, match=problem):
            flynn.session.join(X, y, key=flynn.keys["peer0"], mdns=False, **given)


def test_a_session_starts_from_the_network_of_another(swarm, digits, tmp_path, tmp_path_factory):
    X, y = digits[0][:240] / np.float32(16), digits[1][:240].astype(int)
    setting = {
        "task": "fedavg", "features": 64, "classes": range(10), "network": "logistic", "rounds": 2,
        "data": {"scaling": "none"}, "fedavg": {"rate": 0.1, "schedule": "constant", "held_out": 0},
        "privacy": {"min_contributors": 1},
    }  # fmt: skip
    made = swarm(**setting)
    rows = {name: (X[i::3], y[i::3]) for i, name in enumerate(made.keys)}
    first = made.join(rows)["peer0"]
    first.estimator.save(tmp_path / "first.safetensors")
    next_one = Swarm(tmp_path_factory.mktemp("next"), **setting, initial=tmp_path / "first.safetensors")
    results = next_one.join(rows, initial=tmp_path / "first.safetensors", metrics=0)
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    second = results["peer0"]
    assert second.figures["rounds"][0]["loss"] < first.figures["rounds"][0]["loss"]
    with pytest.raises(ValueError, match="fedavg.initial"):
        next_one.session.join(*rows["peer0"], key=next_one.keys["peer0"], mdns=False)
    second.estimator.save(tmp_path / "second.safetensors")
    with pytest.raises(ValueError, match="second.safetensors.*fedavg.initial"):
        next_one.session.join(
            *rows["peer0"], key=next_one.keys["peer0"], mdns=False, initial=tmp_path / "second.safetensors"
        )
