"""Tests that the type stubs are strict and match the code."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from flyswarm import FedAvg, Session, local, simulate

ROOT = __file__.rsplit("/", 2)[0]
HEAD = """
import numpy as np
from flyswarm import FedAvg, FlyNNClassifier, KNNPerClassifier, Labels, Network, Session, declare, local
from flyswarm import simulate
peers = {"north": "a", "south": "b", "east": "c"}
any_session = Session.load("wards.toml")
class Still:
    def get_weights(self) -> dict[str, float]: return {}
    def set_weights(self, weights: object) -> None: pass
    def fit(self, round: object) -> None: pass
trainer = Still()
own = declare({})
"""
# Lines with one error each, and a part of mypy's message about this error.
WRONG = {
    'FlyNNClassifier(m=2.5)': 'incompatible type "float"',
    'FlyNNClassifier(n=64)': 'Unexpected keyword argument "n"',
    'KNNPerClassifier(neighbours=3)': 'Unexpected keyword argument "neighbours"',
    'Session.new("w", peers, feature=4)': 'feature',
    'Session.new("w", peers, features=4, rounds="20")': 'rounds',
    'Session.new("w", peers, task="flyn")': 'flyn',
    'Session.new("w", peers, task="fedavg", network="resnet")': 'No overload variant',
    'Session.new("w", peers, timing=5000)': 'timing',
    'any_session.join([[0.0]], [1], key="k", holdout=3)': 'holdout',
    'any_session.join([[0.0]], [1], key="k", mdns="no")': 'mdns',
    'any_session.join([[0.0]], [1])': 'key',
    'any_session.join_async(key="k", listens=[])': 'listens',
    'any_session.doctor(waits=3)': 'waits',
    'any_session.forecast(row=3)': 'row',
    'any_session.forecast("3")': 'incompatible type "str"',
    'Session.load(3)': 'incompatible type "int"',
    'Network(b"").to_onnx(3)': 'incompatible type "int"',
    'simulate("churn.toml", seed="3")': 'seed',
    'simulate("churn.toml", seeds=3)': 'seeds',
    'local(any_session, [], trainer=[])': 'trainer',
    'any_session.join([[0.0]], [1], key="k", personalise="yes")': 'personalise',
    'any_session.join([[0.0]], [1], key="k", page=0.5)': 'page',
    'any_session.join([[0.0]], [1], key="k", traces="x")': 'traces',
    'FedAvg(any_session, object())': 'FedAvg',
    'Session.new("w", peers, task="xclp").join(key="k").estimator.predict': 'no attribute "predict"',
}  # fmt: skip
# Expressions and their types.
RIGHT = {
    'Session.new("w", peers, features=4, classes=[0, 1]).join(key="k").estimator': "FlyNNClassifier",
    'Session.new("w", peers, task="tune", features=4).join(key="k").estimator': "FlyNNClassifier",
    'Session.new("w", peers, task="fedavg", hidden=[32]).join(key="k").estimator': "Network",
    'Session.new("w", peers, task="xclp", timing={"linger_ms": 0}).join(key="k").estimator': "Labels",
    'Session.new("w", peers, task="sketch").join(key="k", metrics=0).estimator': "None",
    'any_session.join(key="k").receipt': "dict",
    'Session.new("w", peers, "fedavg", fedavg=declare({}) | {}).join(key="k").estimator': "Weights",
    'FedAvg(Session.new("w", {}, "fedavg", fedavg=own), trainer).join([], key="k").estimator': "Weights",
    'FedAvg(Session.new("w", {}, "fedavg", rounds=3), trainer).join([], key="k").estimator': "Network",
    'local(Session.new("w", peers, task="fedavg"), [([[0.0]], [1])])[0].estimator': "Network",
    'any_session.join(key="k").report()': "Page",
    'any_session.join(key="k", page=0, trace="x.json").page': "Page | None",
    'any_session.join(key="k", personalise=True).personal': "KNNPerClassifier | None",
    'Network(b"").transform([[0.0]])': "floating[numpy._typing._nbit_base._32Bit]",
    'FlyNNClassifier(m=64).fit([[0.0]], [1]).predict_proba(np.zeros((1, 1)))': "float64",
}  # fmt: skip


def mypy(folder, file, *given):
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--cache-dir", str(folder / "cache")]
    return subprocess.run([*command, *given, file], cwd=folder, capture_output=True, text=True)


def test_mypy_accepts_the_stubs_strictly(tmp_path):
    # One program uses all names correctly; the other has an error.
    right = "import numpy as np\nfrom flyswarm import FlyNNClassifier, Session\n"
    right += "p = FlyNNClassifier(m=64).fit([[0.0]], [1]).predict_proba(np.zeros((1, 1)))\nreveal_type(p)\n"
    right += "def run(session: Session) -> None:\n    joined = session.join(key='key')\n"
    right += "    print(joined.receipt)\n"
    (tmp_path / "right.py").write_text(right)
    (tmp_path / "wrong.py").write_text("from flyswarm import FlyNNClassifier\nFlyNNClassifier(m=b'64')\n")
    stubs = [f"{ROOT}/flyswarm/{name}.pyi" for name in ("_classifier", "_flyswarm", "_session")]
    found = mypy(tmp_path, "right.py", *stubs)
    assert found.returncode == 0, found.stdout
    assert "float64" in found.stdout
    found = mypy(tmp_path, "wrong.py")
    assert 'has incompatible type "bytes"; expected "int | str"' in found.stdout


def test_mypy_finds_every_wrong_argument_and_knows_what_join_returns(tmp_path):
    lines = len(HEAD.splitlines())
    (tmp_path / "right.py").write_text(HEAD + "".join(f"reveal_type({line})\n" for line in RIGHT))
    found = mypy(tmp_path, "right.py")
    assert found.returncode == 0, found.stdout
    notes = [line for line in found.stdout.splitlines() if "Revealed type" in line]
    for note, (line, kind) in zip(notes, RIGHT.items(), strict=True):
        assert kind in note, (line, note)
    (tmp_path / "wrong.py").write_text(HEAD + "".join(f"{line}\n" for line in WRONG))
    said = mypy(tmp_path, "wrong.py").stdout.splitlines()
    for number, (line, part) in enumerate(WRONG.items(), lines + 1):
        own = [text for text in said if text.startswith(f"wrong.py:{number}:")]
        assert any(": error: " in text for text in own) and any(part in text for text in own), (line, own)
    assert not [
        text for text in said if any(text.startswith(f"wrong.py:{n}: error") for n in range(lines + 1))
    ]


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_finds_every_wrong_argument(tmp_path):
    lines = len(HEAD.splitlines())
    (tmp_path / "wrong.py").write_text(HEAD + "".join(f"{line}\n" for line in WRONG))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "wrong.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    if " informations" not in said:
        pytest.skip("pyright cannot start: it needs Node.js and its package of npm")
    found = {
        int(line.split("wrong.py:")[1].split(":")[0]) for line in said.splitlines() if " error: " in line
    }
    assert found == set(range(lines + 1, lines + 1 + len(WRONG))), said


def test_stubs_name_the_arguments_of_the_code():
    stubs = [Path(ROOT) / "flyswarm" / f"{name}.pyi" for name in ("_session", "_simulation")]
    text = "".join(stub.read_text("utf-8") for stub in stubs)
    for function in (Session.new, Session.join, Session.doctor, simulate):
        for name in {*inspect.signature(function).parameters} - {"self"}:
            assert f" {name}:" in text, (function.__qualname__, name)
    options = [text.split(f"class {name}Options")[1].split("\n\n")[0] for name in ("Other", "New")]
    stated = {line.split(":")[0].strip() for option in options for line in option.splitlines()[1:]}
    assert stated == {*inspect.signature(Session.new).parameters} - {"name", "peers", "task"}
    join = {*inspect.signature(Session.join).parameters}
    for function in (Session.join_async, FedAvg.join, FedAvg.join_async):
        assert {*inspect.signature(function).parameters} == join, function.__qualname__
    own = {"session", "parts", "trainers"}
    assert {*inspect.signature(local).parameters} == join - {"self", "X", "y", "key"} | own
