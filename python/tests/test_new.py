"""Tests that a new session takes values of Python, and that no value is read as an option of the program."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flyswarm import Identity, Session, _flyswarm


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {name: Identity.new(folder / name) for name in ("north", "south", "east")}


@pytest.fixture
def table(tmp_path):
    """Returns a file of rows whose classes have commas."""
    random = np.random.default_rng(0)
    low = np.arange(60) % 2 == 0
    frame = pd.DataFrame(
        {
            "age,years": random.normal(size=60) + low, "3": random.choice(["a", "b"], 60),
            "patient": [f"P{i // 3}" for i in range(60)], "income": np.where(low, "<5,000", "5,000+"),
        }
    )  # fmt: skip
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def test_no_command_of_the_program_makes_or_shows_a_session(keys, monkeypatch):
    def call(arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr(_flyswarm, "call", call)
    session = Session.new("w", keys, features=2, classes=["a", "b"])
    assert session.show()["name"] == "w" and Session(session.text).classes == ["a", "b"]


def test_names_of_peers_and_sessions_are_not_read_as_options(keys):
    peers = {"--peer=x": keys["north"], "south": keys["south"], "east": keys["east"]}
    with pytest.raises(ValueError, match='^roster.name is "--peer=x", must be 1 to 64'):
        Session.new("w", peers, features=2, classes="a,b")
    at = {**keys, "east": f"{keys['east'].peer_id}@/ip4/127.0.0.1/tcp/4001"}
    roster = {peer["name"]: peer for peer in Session.new("w", at, features=2, classes="a,b").show()["roster"]}
    assert roster["east"]["addresses"] == ["/ip4/127.0.0.1/tcp/4001"] and not roster["north"]["addresses"]
    with pytest.raises(ValueError, match="^peers: east: nobody: "):
        Session.new("w", {**keys, "east": "nobody"}, features=2, classes="a,b")


def test_a_table_with_commas_in_its_names_is_described(keys, table, caplog):
    caplog.set_level(logging.INFO, "flyswarm")
    given = {"from_": table, "label": "income", "group": "patient", "no_evaluate": True}
    session = Session.new("w", keys, **given)
    assert session.classes == ["5,000+", "<5,000"]
    assert session.show()["data"]["table"]["group"] == "patient"
    assert any("the other peers see this about these rows" in line for line in caplog.messages)
    assert not any("--" in line for line in caplog.messages)
    ordered = Session.new("w", keys, **given, classes=["<5,000", "5,000+"])
    assert ordered.classes == ["<5,000", "5,000+"]
    # A number is the place of a column, and a text is its name.
    assert Session.new("w", keys, **given | {"label": np.int64(4)}).classes == session.classes
    assert Session.new("w", keys, from_=str(table), label="3", group="patient").classes == ["a", "b"]
    with pytest.raises(ValueError, match="column 9|9"):
        Session.new("w", keys, **given | {"label": 9})


@pytest.mark.parametrize(
    ("given", "error", "problem"),
    [
        ({"task": "flyn"}, ValueError, '^task is "flyn", expected one of flynn, '),
        ({"task": 3}, TypeError, "^task is 3, expected a str"),
        ({"name": None}, TypeError, "^name is None, expected a str"),
        ({"peers": ["north"]}, TypeError, r"^peers is \['north'\], expected a mapping"),
        ({"peers": {"north": 3}}, TypeError, r"^peers\['north'\] is 3, expected a str"),
        ({"candidates": 3}, ValueError, "^candidates: not with the task flynn, which has .*no_evaluate"),
        ({"no_evaluate": "yes"}, TypeError, "^no_evaluate is 'yes', expected a bool"),
        ({"task": "fedavg", "rounds": 2.5}, TypeError, "^rounds is 2.5, expected an int"),
        ({"task": "fedavg", "hidden": "64"}, TypeError, "^hidden is '64', expected an int"),
        ({"task": "fedavg", "network": 3}, TypeError, "^network is 3, expected a str"),
        ({"task": "fedavg", "initial": b"x"}, TypeError, "^initial is b'x', expected a path"),
        ({"task": "fedavg", "network": "mpl"}, ValueError, "network"),
        ({"epsilon": "much"}, ValueError, "^epsilon is 'much', expected a number"),
        ({"epsilon": True}, TypeError, "^epsilon is True, expected a number"),
        ({"tuning": 0, "from_": "no.csv"}, ValueError, "no.csv"),
        ({"tuning": 5}, ValueError, "^tuning needs rows: give a file with from_"),
        ({"min_rows": 5}, ValueError, "^min_rows needs from_, a file of rows"),
        ({"label": 0}, ValueError, "^label is 0, expected 1 or more"),
        ({"label": 1.5}, TypeError, "^label is 1.5, expected an int"),
        ({"features": 2.5}, TypeError, "^features is 2.5, expected a list of names"),
        ({"features": 2, "from_": "x.csv"}, ValueError, "^features is given, but from_ describes"),
        ({"classes": "5..2"}, ValueError, r"^classes is '5\.\.2', expected a range"),
        ({"classes": "0..10000"}, ValueError, "expected a range of 2 to 10000 integers"),
        ({"set": {"min_peer": 3}}, ValueError, "min_peer"),
        ({"privacy": {"x": float("nan")}}, ValueError, "is nan, expected a finite one"),
        ({"flynn": {"m": 2**63}}, ValueError, "is 9223372036854775808, expected"),
        ({"flynn": {"m": None}}, TypeError, "None is of the type NoneType"),
        ({"map": "missing.toml", "from_": "x.csv"}, ValueError, "^missing.toml: "),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_by_the_name_of_its_argument(keys, given, error, problem):
    usual = {"name": "w", "peers": keys, "classes": ["a", "b"]}
    if "from_" not in given and "label" not in given and "min_rows" not in given:
        usual["features"] = 4
    with pytest.raises(error, match=problem) as raised:
        Session.new(**usual | given)
    assert "--" not in str(raised.value) and "\n" not in str(raised.value)


def test_fields_with_dots_and_negative_numbers_are_values_too(keys):
    session = Session.new(
        "w", keys, features=2, classes="-1..1",
        set={"timing.linger_ms": 7000}, timing={"start_wait_ms": 8000},
        data={"scaling": {"range": {"lo": -5, "hi": 2}}},
    )  # fmt: skip
    shown = session.show()
    assert session.classes == ["-1", "0", "1"]
    assert (shown["timing"]["linger_ms"], shown["timing"]["start_wait_ms"]) == (7000, 8000)
    assert shown["data"]["scaling"] == {"range": {"lo": -5.0, "hi": 2.0}}


def test_each_file_of_a_session_can_be_a_path(keys, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("map.toml").write_text('drop = ["patient"]\n')
    for path in (str, Path):
        session = Session.new("w", keys, from_=path("rows.csv"), label="income", map=path("map.toml"))
        kinds = {column["name"]: column["kind"] for column in session.show()["data"]["table"]["column"]}
        assert kinds == {"age,years": "number", "3": "category", "patient": "ignored"}
