"""Tests of sessions between real peers over loopback."""

import asyncio
import logging
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import LOOPBACK, Swarm
from flyswarm import Identity, Ledger, Model, Session, SessionWarning, simulate
from scipy.sparse import csr_array
from sklearn.base import clone

SMALL = {"features": 64, "classes": "0..9", "flynn": {"m": 512, "rho": 16}, "no_evaluate": True}


def parts(swarm, X, y):
    """Returns the rows by peer. Each of three peers has every third row."""
    return {name: (X[i :: len(swarm.keys)], y[i :: len(swarm.keys)]) for i, name in enumerate(swarm.keys)}


def test_every_peer_gets_the_estimator_that_a_fit_of_all_rows_gives(swarm, digits, capfd):
    X, y = digits
    made = swarm(**SMALL)
    heard = []
    results = made.join(parts(made, X, y), lambda name, event: heard.append((name, event)))
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    estimators = [estimator for estimator, _ in results.values()]
    pooled = clone(estimators[0]).fit(X, y)
    assert {e.model_.digest for e in estimators} == {pooled.model_.digest}
    assert (estimators[1].predict(X) == pooled.predict(X)).all()
    said = "200 of these 600 rows equal rows that this model has learnt from"
    with pytest.warns(SessionWarning, match=said):
        assert estimators[1].score(X, y) > 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # There is no warning for rows of other peers, and pickles do not contain the hashes of own rows.
        estimators[1].score(X[::3], y[::3])
        pickle.loads(pickle.dumps(estimators[1])).score(X, y)
        pooled.score(X, y)
    for name, (_, receipt) in results.items():
        assert receipt["own_rows"]["left_out"] == [] and receipt["peer"] == name
        kinds = [event.kind for whose, event in heard if whose == name]
        assert kinds.index("waiting") < kinds.index("opened") < kinds.index("finished")
    assert capfd.readouterr() == ("", "")


def test_python_and_the_program_take_part_in_one_session(swarm, digits, tmp_path):
    X, y = digits
    made = swarm(**SMALL)
    rows = parts(made, X, y)
    with made.program("peer2", rows.pop("peer2"), tmp_path) as tell:
        results = made.join(rows, tell)
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    digests = {result.estimator.model_.digest for result in results.values()}
    assert digests == {Model.load(tmp_path / "test.out").digest}


def test_columns_of_a_frame_are_brought_into_the_order_of_the_session(swarm, digits):
    X, y = digits
    names = [f"pixel {i}" for i in range(64)]
    made = swarm(**{**SMALL, "features": names})
    frames = {n: (pd.DataFrame(x, columns=names)[names[::-1]], y) for n, (x, y) in parts(made, X, y).items()}
    results = made.join(frames)
    estimator = results["peer0"].estimator
    assert estimator.model_.columns == names
    frame = pd.DataFrame(X, columns=names)
    assert clone(estimator).fit(frame, y).model_.digest == estimator.model_.digest
    with pytest.raises(ValueError, match='X: .*"pixel 3"'):
        made.session.join(frame.rename(columns={"pixel 3": "pixel 5b"}), y, key=made.keys["peer0"])


def test_an_exception_in_a_callback_ends_the_session_with_it(swarm, digits):
    made = swarm(**SMALL)

    def fail(event):
        raise ZeroDivisionError(event.kind)

    with pytest.raises(ZeroDivisionError, match="listening|waiting"):
        made.session.join(*digits, key=made.keys["peer0"], on_event=fail, listen=LOOPBACK, mdns=False)
    # The node has ended, so another node can lock its state at once.
    with pytest.raises(ZeroDivisionError):
        made.session.join(*digits, key=made.keys["peer0"], on_event=fail, listen=LOOPBACK, mdns=False)


def test_ctrl_c_leaves_cleanly(swarm, digits, tmp_path):
    made = swarm(**SMALL)
    made.session.save(tmp_path / "test.toml")
    np.savez(tmp_path / "rows.npz", X=digits[0], y=digits[1])
    code = (
        "import sys\nfrom flyswarm import Session\n"
        "def tell(event):\n    print(event.kind, flush=True)\n"
        "try:\n    Session.load('test.toml').join('rows.npz', key=sys.argv[1], on_event=tell, mdns=False)\n"
        "except KeyboardInterrupt:\n    print('left', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, made.keys["peer0"].path], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert any(line == "waiting\n" for line in child.stdout)
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
    assert (child.returncode, rest.splitlines()[-1]) == (0, "left")


def test_a_cancelled_join_leaves(swarm, digits):
    made = swarm(**SMALL)

    async def run():
        seen = asyncio.Event()
        joining = asyncio.ensure_future(
            made.session.join_async(
                *digits,
                key=made.keys["peer0"],
                on_event=lambda event: seen.set(),
                listen=LOOPBACK,
                mdns=False,
            )
        )
        await seen.wait()
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining

    before = threading.active_count()
    asyncio.run(run())
    assert threading.active_count() <= before


def test_join_async_gives_what_join_gives(swarm, digits):
    X, y = digits
    made = swarm(**SMALL)

    async def one(name, key, rows):
        def on_event(event):
            if event.kind == "listening":
                made.addresses[key.peer_id] = event.fields["address"]

        return await made.session.join_async(
            *rows, key=key, on_event=on_event, listen=LOOPBACK, mdns=False, addresses=made.addresses
        )

    async def all_of_them():
        rows = parts(made, X, y)
        return await asyncio.gather(*(one(name, key, rows[name]) for name, key in made.keys.items()))

    results = asyncio.run(all_of_them())
    assert len({joined.estimator.model_.digest for joined in results}) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda X, y: (X[:, 1:], y), "63 features .*, expected 64"),
        (lambda X, y: (X, np.where(y == "3", "drei", y)), '"drei"'),
        (lambda X, y: (X, y[1:]), "y has 599 labels, X has 600 rows"),
        (lambda X, y: (X[0], y), "X has 1 dimensions, expected 2"),
        (lambda X, y: (X, y[:, None]), "y has 2 dimensions, expected 1"),
        (lambda X, y: (X, "3"), "y has 0 dimensions, expected 1"),
        (lambda X, y: (None, y), "^y: only with X"),
        (lambda X, y: (np.ma.masked_less(X, 1), y), "X has masked values"),
        (lambda X, y: ([[1.0], [1.0, 2.0]], y[:2]), "X is not an array of numbers"),
        (lambda X, y: (np.full((1, 64), None), y[:1]), "row 1, column 1 is NaN, expected a finite number"),
        (lambda X, y: (np.full((1, 64), "many", object), y[:1]), "X is not an array of numbers: .*'many'"),
        (lambda X, y: (csr_array(X), y), "X is sparse, expected a dense array"),
        (lambda X, y: (X * np.float32(2.0**80), y), "2\\^80"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_the_words_of_the_program(swarm, digits, change, problem):
    made = swarm(**SMALL)
    with pytest.raises(ValueError, match=problem) as refused:
        made.session.join(*change(*digits), key=made.keys["peer0"])
    assert "/tmp" not in str(refused.value)


def test_numbers_of_any_type_are_the_same_rows(swarm, digits):
    made = swarm(**SMALL)
    X, y = digits
    plain = made.session._rows(X, y, None).digest()
    for kind in (np.float16, np.float64, np.longdouble, np.int8, object, ">f4"):
        assert made.session._rows(X.astype(kind), y, None).digest() == plain, kind


def test_labels_are_named_once_by_the_argument_for_their_rows(swarm, digits, tmp_path):
    made = swarm(**SMALL)
    with pytest.raises(ValueError, match="^label: only with a file of rows"):
        made.session.join(*digits, key=made.keys["peer0"], label="kind")
    with pytest.raises(ValueError, match="^y: not with a file of rows"):
        made.session.join(tmp_path / "rows.csv", digits[1], key=made.keys["peer0"])


def test_what_does_not_fit_the_session_is_refused_in_the_words_of_the_program(swarm, digits, tmp_path):
    made = swarm(**SMALL)
    with pytest.raises(ValueError, match="is not in the roster"):
        made.session.join(*digits, key=Identity.new(tmp_path / "other"))
    with pytest.raises(ValueError, match="the session has no privacy.epsilon"):
        made.session.join(*digits, key=made.keys["peer0"], dataset="rows")
    with pytest.raises(ValueError, match="has no peers without rows"):
        made.session.join(key=made.keys["peer0"])
    with pytest.raises(ValueError, match="data.features is absent"):
        Session.new("test", made.keys, classes=["a", "b"])
    with pytest.raises(ValueError, match="min.peers"):
        Session.new("test", made.keys, set={"min_peers": 9}, **SMALL)
    with pytest.raises(ValueError, match="a session file is expected"):
        Session.load(made.keys["peer0"].path)


def test_a_private_session_of_little_use_is_not_paid_for(tmp_path, digits):
    made = Swarm(tmp_path, features=64, classes="0..9", epsilon="0.001")
    X, y = digits
    assert made.session.forecast(len(X))["useful"] is False
    with pytest.raises(ValueError, match="of little use.*nothing was spent"):
        made.session.join(X, y, key=made.keys["peer0"], dataset="rows", mdns=False)
    assert Ledger.read(made.keys["peer0"]).charges == []


def test_the_doctor_says_who_is_missing(swarm):
    made = swarm(**SMALL)
    findings = made.session.doctor(made.keys["peer0"], wait=1, no_mdns=True, listen=LOOPBACK)
    assert findings[-1] | {"check": "verdict", "could_start": False, "ready": 1, "needed": 3} == findings[-1]
    assert {f["peer"] for f in findings if f.get("level") == "error"} >= {"peer1", "peer2"}


def test_events_go_to_logging_and_progress_to_standard_error(swarm, digits, caplog, capfd):
    made = swarm(**SMALL)

    def stop(event):
        if event.kind == "waiting":
            raise StopIteration

    with caplog.at_level(logging.INFO, "flyswarm"), pytest.raises(StopIteration):
        made.session.join(*digits, key=made.keys["peer0"], on_event=stop, listen=LOOPBACK, mdns=False)
    # Names are in the order of the peer ids.
    waits = [line for line in caplog.messages if line.startswith("peer0 waits for ")]
    assert len(waits) == 1 and "peer1" in waits[0] and "peer2" in waits[0]
    assert capfd.readouterr() == ("", "")


def stopped_when_it_waits(made, digits, **given):
    def stop(event):
        if event.kind == "waiting":
            raise StopIteration

    with pytest.raises(StopIteration):
        key = made.keys["peer0"]
        made.session.join(*digits, key=key, on_event=stop, listen=LOOPBACK, mdns=False, **given)


def test_progress_is_lines_on_standard_error(swarm, digits, capfd):
    stopped_when_it_waits(swarm(**SMALL), digits, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and err.splitlines() and all(line.startswith("test: ") for line in err.splitlines())
    assert any("peer0 waits for " in line for line in err.splitlines())


def test_progress_in_a_notebook_is_one_cell_that_changes(swarm, digits, capfd, monkeypatch):
    shown = []

    class Handle:
        def update(self, content, raw):
            shown.append(("update", content["text/plain"], raw))

    def display(content, raw, display_id):
        shown.append(("display", content["text/plain"], raw))
        return Handle()

    notebook = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    stopped_when_it_waits(swarm(**SMALL), digits, progress=True)
    assert shown[0] == ("display", "test", True) and len(shown) > 1
    assert all(kind == "update" and text.startswith("test: ") and raw for kind, text, raw in shown[1:])
    assert capfd.readouterr() == ("", "")


def test_a_scenario_is_simulated(request):
    scenarios = request.config.rootpath.parent / "simulations"
    one, two = (simulate(scenarios / "churn.toml", small=True, seed=seed) for seed in (1, 1))
    assert one == two and one




@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads and files are counted in /proc")
def test_threads_and_open_files_of_ten_sessions_are_given_back(tmp_path, digits):
    X, y = digits[0][:90], np.where(digits[1][:90].astype(int) < 5, "low", "high")

    def one(folder):
        small = {"flynn": {"m": 64, "rho": 8}, "no_evaluate": True}
        made = Swarm(folder, features=64, classes=["low", "high"], **small)
        results = made.join(parts(made, X, y))
        assert all(not isinstance(result, BaseException) for result in results.values()), results

    def sizes():
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    folders = [tmp_path / str(i) for i in range(11)]
    for folder in folders:
        folder.mkdir()
    # The first session starts the pools of threads.
    one(folders[0])
    threads, files = sizes()
    for folder in folders[1:]:
        one(folder)
    # A thread may end slightly later than the call that uses it.
    deadline = time.monotonic() + 60
    while (found := sizes()) > (threads, files) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found[0] <= threads and found[1] <= files


def test_rows_in_memory_are_not_written_to_a_disk_on_linux(swarm, digits, monkeypatch):
    if not hasattr(os, "memfd_create"):
        pytest.skip("files in memory are Linux's")
    made = swarm(**SMALL)

    def refused(*args, **given):
        raise AssertionError("a folder was made")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refused)
    before = len(os.listdir("/proc/self/fd"))
    assert made.session._rows(*digits, None).count == 600
    with pytest.raises(ValueError, match="^X, .*expected 64"):
        made.session._rows(digits[0][:, 1:], digits[1], None)
    assert len(os.listdir("/proc/self/fd")) == before
    # On systems without `memfd_create` the rows are written to a folder.
    monkeypatch.undo()
    monkeypatch.delattr(os, "memfd_create")
    assert made.session._rows(*digits, None).count == 600


def test_what_whoever_decides_has_to_know_is_a_warning_of_python(swarm, digits):
    X, y = digits[0][:300], np.where(digits[1][:300] == "0", "event", "none")
    made = swarm(features=64, classes="event,none", flynn={"m": 256, "rho": 16})
    rows = {name: (X[i::3], y[i::3]) for i, name in enumerate(made.keys)}
    with pytest.warns(SessionWarning, match="^Too few events to say how good the swarm is: "):
        results = made.join(rows)
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    for _, receipt in results.values():
        assert receipt["warnings"] == {"quality": 1}
    figures = results["peer0"].figures
    assert figures["headline"].startswith("too few events to say how good it is on held-out rows")
    assert figures["pooled"]["swarm"]["positive"]["class"] == "event"


TABLES = pathlib.Path(__file__).parents[2] / "examples" / "patients"


@pytest.mark.parametrize("read", [pd.read_csv, pl.read_csv], ids=["pandas", "polars"])
def test_tables_with_texts_dates_and_gaps_are_taken_as_the_program_takes_them(tmp_path, read):
    described = {"from_": TABLES / "north.csv", "label": "diagnosis"}
    made = Swarm(tmp_path, **described, flynn={"m": 512, "rho": 16}, no_evaluate=True)
    rows = {}
    for peer, name in zip(made.keys, ("north", "south", "east"), strict=True):
        missing = {"na_values": "unknown"} if read is pd.read_csv else {"null_values": "unknown"}
        table = read(TABLES / f"{name}.csv", **missing)
        labels = list(table["diagnosis"])
        rest = table.drop(columns="diagnosis") if read is pd.read_csv else table.drop("diagnosis")
        rows[peer] = rest, labels
    results = made.join(rows)
    assert all(not isinstance(result, BaseException) for result in results.values()), results
    estimator = results["peer0"].estimator
    new = read(TABLES / "new.csv")
    (tmp_path / "test.model").write_bytes(results["peer0"].file)
    command = ["predict", str(tmp_path / "test.model"), "--data", str(TABLES / "new.csv")]
    found = subprocess.run([sys.executable, "-m", "flyswarm", *command], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert estimator.predict(new).tolist() == found.stdout.split()
    assert estimator.score(*rows["peer1"]) > 0.6
    other = {"age": "years"}
    renamed = new.rename(columns=other) if read is pd.read_csv else new.rename(other)
    with pytest.raises(ValueError, match='^X, .*no column is called "age"'):
        estimator.predict(renamed)
