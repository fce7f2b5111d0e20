"""Tests of whole federations in one process, and of the plots and pages of their results."""

import builtins
import html
import json
import re
import sys
import tempfile
import threading
import time
import types

import numpy as np
import pytest
from conftest import fixed, fixed_key
from flyswarm import (
    FedAvg,
    Federation,
    FlyNNClassifier,
    Identity,
    Joined,
    Session,
    SessionError,
    SessionWarning,
    local,
    simulate,
)
from flyswarm._local import keep_rounds, with_ids
from sklearn.base import clone

FLYNN = {"classes": range(10), "features": 64, "flynn": {"m": 512, "rho": 16}}
FEDAVG = {
    "task": "fedavg", "classes": range(10), "features": 64, "network": "logistic", "rounds": 3,
    "data": {"scaling": "none"}, "fedavg": {"rate": 0.1, "schedule": "constant"},
    "privacy": {"min_contributors": 1},
}  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {name: Identity.new(folder / name) for name in ("north", "south", "east")}


def parts(digits):
    X, y = digits[0] / np.float32(16), digits[1].astype(int)
    return [(X[i::3], y[i::3]) for i in range(3)]


@pytest.fixture(scope="module")
def figures(keys, digits):
    """Returns the results of a session of the task flynn with held-out rows."""
    with pytest.warns(SessionWarning, match="^north: Too few events") as warned:
        results = local(Session.new("wards", keys, **FLYNN), parts(digits))
    # Each peer warns once, and the warning points to the line that called `local`.
    assert {warning.filename for warning in warned} == {__file__}
    assert sorted(str(warning.message)[:5] for warning in warned) == ["east:", "north", "south"]
    return results


def test_a_federation_in_one_process_gives_every_peer_the_model_of_all_rows(keys, digits):
    session = Session.new("wards", keys, no_evaluate=True, **FLYNN)
    heard, threads = [], threading.active_count()
    results = local(session, parts(digits), on_event=lambda name, event: heard.append((name, event.kind)))
    X, y = digits[0] / np.float32(16), digits[1].astype(int)
    estimator = results[0].estimator
    assert isinstance(estimator, FlyNNClassifier) and (estimator.predict(X) == y).mean() > 0.85
    assert {result.estimator.model_.digest for result in results} == {
        clone(estimator).fit(X, y).model_.digest
    }
    assert results.names == ["east", "north", "south"]
    assert [result.receipt["peer"] for result in results] == results.names
    assert {(name, "finished") for name in results.names} <= set(heard)
    # The session has the same settings, but other peer ids.
    assert {peer["name"] for peer in results.session.show()["roster"]} == {*keys}
    assert not any(key.peer_id in results.session.text for key in keys.values())
    assert threading.active_count() <= threads


def test_parts_by_name_reach_their_peers_and_progress_ends_with_the_table_of_rounds(keys, digits, capfd):
    session = Session.new("wards", keys, **FEDAVG)
    by_name = dict(zip(["east", "north", "south"], parts(digits), strict=True))
    by_name["east"] = (by_name["east"][0][:60], by_name["east"][1][:60])
    results = local(session, by_name, progress=True)
    rows = {result.receipt["peer"]: result.receipt["data"]["rows"] for result in results}
    assert rows == {"north": 200, "south": 200, "east": 60}
    err = capfd.readouterr().err
    assert err.endswith(f"wards: \n{results.table()}\n")
    lines = results.table().splitlines()
    assert re.fullmatch(r"round +loss +accuracy", lines[0]) and len(lines) == 4
    assert float(lines[3].split()[1]) < float(lines[1].split()[1])


def test_progress_in_a_notebook_does_not_hide_warnings(keys, digits, monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))
    notebook = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    # The display does not use `clear_output`, so other output of the cell stays.
    display = types.SimpleNamespace(display=lambda *given, **names: handle)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with pytest.warns(SessionWarning, match="^east: Too few events") as warned:
        local(Session.new("wards", keys, **FLYNN), parts(digits), progress=True)
    assert len(warned) == 3 and len(shown) > 3 and shown[-1].startswith("wards: \ntoo few events")


class Still:
    """A trainer that leaves the weights as they are."""

    def __init__(self):
        self.weights = {"dense1.weight": np.zeros((10, 64)), "dense1.bias": np.zeros(10)}

    def get_weights(self):
        return self.weights

    def set_weights(self, weights):
        self.weights = weights

    def fit(self, round):
        return 2.0, 0.25


def test_a_trainer_for_each_peer_trains(keys, digits):
    trainers = [Still() for _ in range(3)]
    session = Session.new("wards", keys, **FEDAVG)
    # A `FedAvg` stands for its trainer.
    given = [FedAvg(session, trainers[0]), *trainers[1:]]
    results = local(session, parts(digits), trainers=given)
    assert [found["loss"] for found in results[0].figures["rounds"]] == [2.0] * 3
    assert all(trainer.weights.keys() == results[0].estimator.weights_.keys() for trainer in trainers)


def test_the_exception_of_a_peer_ends_all_and_names_the_peer(keys, digits):
    # A peer that is not asked to leave waits for ten minutes.
    waiting = {"start_wait_ms": 600_000, "no_quorum_timeout_ms": 600_000}
    session = Session.new("wards", keys, timing=waiting, **FLYNN)
    began = time.monotonic()
    X, y = parts(digits)[1]
    wrong = [parts(digits)[0], (X[:, 1:], y), parts(digits)[2]]
    with pytest.raises(ValueError, match="63 features") as raised:
        local(session, wrong)
    assert raised.value.__notes__ == ["peer north"] and time.monotonic() - began < 300

    class Failing(Still):
        def fit(self, round):
            raise ArithmeticError("no step")

    with pytest.raises(ArithmeticError, match="no step"):
        local(Session.new("wards", keys, **FEDAVG), parts(digits), trainers=[Still(), Failing(), Still()])
    threads = threading.active_count()

    def fail(name, event):
        raise ZeroDivisionError(name)

    with pytest.raises(ZeroDivisionError):
        local(session, parts(digits), on_event=fail)
    assert threading.active_count() <= threads


def test_weights_of_the_last_round_stay_if_a_federation_fails(keys, digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "wards.round"
    kept.write_bytes(b"of another session")

    class Failing(Still):
        def fit(self, round):
            if round.number == 3:
                raise ArithmeticError("no step")
            return super().fit(round)

    with pytest.raises(ArithmeticError, match="no step") as raised:
        local(Session.new("wards", keys, **FEDAVG), parts(digits), trainers=[Still(), Failing(), Still()])
    assert str(kept) in raised.value.__notes__[-1]
    assert (tmp_path / "wards.before.round").read_bytes() == b"of another session"
    again = Session.new("again", keys, **FEDAVG, initial=kept)
    assert len(local(again, parts(digits), initial=kept)[0].figures["rounds"]) == 3
    assert not list(tmp_path.glob("again*"))


def test_the_error_names_the_place_of_the_weights_that_stay(tmp_path, monkeypatch):
    made = tmp_path / "keys" / "0" / "wards-1.round"
    made.parent.mkdir(parents=True)
    made.write_bytes(b"weights")
    error = SessionError(f"3 peers left; the weights after round 2 are in {made}; start from {made}")
    keep_rounds(tmp_path / "keys", tmp_path / "wards.round", error)
    place = tmp_path / "wards.round"
    assert str(error) == f"3 peers left; the weights after round 2 are in {place}; start from {place}"
    assert place.read_bytes() == b"weights" and not hasattr(error, "__notes__")
    # If the folder cannot be written, the weights are not lost.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    interrupted = KeyboardInterrupt()
    keep_rounds(tmp_path / "keys", tmp_path / "missing" / "wards.round", interrupted)
    (place,) = tmp_path.glob("flyswarm-*/wards.round")
    assert place.read_bytes() == b"weights"
    assert "could not be written here" in interrupted.__notes__[0] and str(place) in interrupted.__notes__[1]
    keep_rounds(tmp_path / "missing", tmp_path / "wards.round", untouched := ValueError("rows"))
    assert not hasattr(untouched, "__notes__")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([1, 2], "parts has 2 entries, expected one for each of 3 peers"),
        ({"north": 1, "west": 2, "east": 3}, r"parts has the names \['east', 'north', 'west'\], expected"),
    ],
)
def test_parts_that_are_not_those_of_the_peers_are_refused(keys, given, problem):
    with pytest.raises(ValueError, match=problem):
        local(Session.new("wards", keys, **FLYNN), given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"session": "wards.toml"}, "^session is 'wards.toml', expected a Session"),
        ({"parts": 3}, "^parts is 3, expected a list with an entry for each peer, or a mapping"),
        ({"parts": ["ab", "cd", "ef"]}, r"^the part of east is of the type str, expected a pair \(X, y\)"),
        ({"trainers": 3}, "^trainers is 3, expected a list"),
        ({"progress": 1}, "^progress is 1, expected a bool"),
        ({"on_event": "print"}, "^on_event is 'print', expected a function"),
    ],
)
def test_an_argument_of_another_type_is_named_before_a_node_starts(keys, given, problem):
    usual = {"session": Session.new("wards", keys, **FLYNN), "parts": [([], [])] * 3}
    with pytest.raises(TypeError, match=problem):
        local(**{**usual, **given})


def test_addresses_of_the_roster_are_left_out():
    text = 'name = "w"\n[[roster]]\nname = "a"\npeer_id = "x"\naddresses = [\n  "/ip4/1.2.3.4/tcp/1",\n]\n'
    text += '\n[[roster]]\nname = "b"\npeer_id = "y"\naddresses = ["/ip4/1.2.3.4/tcp/2"]\n'
    found = with_ids(text, ["one", "two"])
    assert found.count("addresses = []\n") == 2 and "1.2.3.4" not in found
    assert found.index('"one"') < found.index('"b"') < found.index('"two"')


def test_the_report_is_the_page_of_the_program(figures, tmp_path):
    page = figures[0].report()
    assert page.html.startswith("<!DOCTYPE html>") and "Report for east" in page.html
    assert "Confusion matrix" in page.html and "Too few events" in page.html
    assert [text[:15] for text in figures[0].warnings] == ["Too few events "]
    page.save(tmp_path / "wards.html")
    assert (tmp_path / "wards.html").read_text() == page.html
    inline = page._repr_html_()
    assert inline.startswith("<iframe sandbox srcdoc=") and "Report for east" in inline
    assert html.unescape(inline.split('srcdoc="')[1].split('"')[0]) == page.html
    assert (
        json.loads(figures[0].own or "{}") is not None and repr(page) == f"Page({len(page.html)} characters)"
    )
    assert figures.table().startswith("too few events")
    assert "\n" not in repr(figures[0]) and len(repr(figures[0])) < 160


def test_plots_draw_the_figures_of_the_result(figures):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    result = figures[0]
    found = result.figures["pooled"]["swarm"]
    ax = result.plot()
    assert ax.get_title() == "Confusion matrix"
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(i) for i in range(10)]
    assert np.array_equal(ax.images[0].get_array(), found["confusion"]) and len(ax.texts) == 100
    ax = result.plot("calibration")
    assert ax.get_title() == "Calibration" and ax.lines[1].get_xdata().tolist() == [
        each["stated"] for each in found["calibration"]
    ]
    # The plot works even if rounding has moved a limit to the wrong side of the value.
    edge = {"stated": 0.9, "right": {"low": 1.0, "value": 1.0 - 1e-16, "high": 1.0 - 2e-16}}
    figures = {"pooled": {"swarm": {"calibration": [edge]}}}
    assert Joined(None, {}, b"", figures).plot("calibration").get_title() == "Calibration"
    _, own = pyplot.subplots()
    assert result.plot("confusion", ax=own) is own
    trained = Joined(
        None, {}, b"", {"rounds": [{"loss": 2.0, "accuracy": 0.5}, {"loss": 1.0, "accuracy": 0.75}]}
    )
    ax = trained.plot()
    assert list(ax.lines[0].get_ydata()) == [2.0, 1.0]
    assert ax.get_xlabel() == "round"
    for wrong, kind in ((trained, "confusion"), (trained, "calibration"), (result, "rounds")):
        with pytest.raises(ValueError, match="the result has no"):
            wrong.plot(kind)
    pyplot.close("all")


def test_without_matplotlib_only_plots_fail_and_say_what_to_install(figures, monkeypatch):
    original = builtins.__import__

    def missing(name, *given):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return original(name, *given)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        figures[0].plot("confusion")
    assert figures[0].report().html


def test_a_federation_without_results_has_no_table():
    assert Federation([], [], None).table() == "no rounds"


def test_a_session_and_arrays_are_simulated(keys, digits, tmp_path):
    # The projection depends on the keys.
    keys = {name: fixed_key(tmp_path / name, at) for at, name in enumerate(keys, 5)}
    session = fixed(Session.new("wards", keys, **FLYNN), 1)
    X, y = digits[0], digits[1].astype(int)
    one = simulate(session, rows=(X, y), seed=3)
    found = one["runs"][0]["accuracy"]
    assert found["equal"] and 140 < found["rows"] < 160 and found["swarm"] == found["pooled"] > 0.8
    # A scenario can be given by its fields, and the result depends on the rows.
    fields = {"peers": 3, "seed": 3}
    assert simulate(fields, session=session, rows=(X, y)) == one
    assert simulate(fields, session=session, rows=(X[:300], y[:300])) != one
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"pixel {i}" for i in range(64)])
    uneven = simulate({"peers": 4, "data": {"split": "by-class"}}, rows=(frame, y))
    assert len(uneven["runs"]) == 1 and uneven["runs"][0]["accuracy"]["equal"]


def test_a_simulation_that_does_not_fit_is_refused(keys, digits):
    session = Session.new("wards", keys, **FLYNN)
    X, y = digits
    for given, problem in (
        ((session, {"rows": (X[:, 1:], y)}), "^X has 63 features, the session has 64"),
        ((session, {"rows": (X, np.where(y == "3", "drei", y))}), "^y has the label 'drei'"),
        (({"peer": 3}, {}), "^scenario: unknown field `peer`"),
        ((session, {"rows": X}), "^rows is of the type ndarray, expected a pair"),
        (("churn.toml", {"rows": (X, y)}), "only with a scenario that is not a file"),
    ):
        with pytest.raises((ValueError, TypeError), match=problem):
            simulate(given[0], **given[1])
