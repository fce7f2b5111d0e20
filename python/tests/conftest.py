"""Peers of a session on this machine."""

import contextlib
import os
import re
import subprocess
import threading
from functools import partial

import numpy as np
import pytest
from flyswarm import Identity, Session
from sklearn.datasets import load_digits

# Time limits are long, because peers on a busy machine may be slow.
TIMING = {"start_wait_ms": 60_000, "view_timeout_ms": 30_000, "linger_ms": 2_000}
LOOPBACK = ["/ip4/127.0.0.1/tcp/0"]


def fixed(session, number):
    """Returns a session with the same settings, but with a fixed number and a fixed date."""
    text = re.sub(r'(?m)^run_id = ".*"$', f'run_id = "{number:032x}"', session.text)
    return Session(re.sub(r"(?m)^created = .*$", "created = 2026-11-27T12:00:00Z", text))


def fixed_key(file, number):
    """Returns a fixed identity, which is the same in every run."""
    file.write_text(f"flyswarm-identity 1 {number:064x}\n")
    file.chmod(0o600)
    return Identity.load(file)


class Swarm:
    """A session, and the keys of its peers. If `number` is given, session and keys are the same in every
    run."""

    def __init__(self, folder, count=3, number=None, **given):
        self.keys = {}
        for i in range(count):
            (folder / f"peer{i}").mkdir()
            file = folder / f"peer{i}" / "key"
            self.keys[f"peer{i}"] = Identity.new(file) if number is None else fixed_key(file, i + 1)
        self.session = Session.new("test", self.keys, timing=TIMING, **given)
        if number is not None:
            self.session = fixed(self.session, number)
        self.addresses = {}

    def join(self, rows, tell=lambda name, event: None, through=None, **given):
        """Joins with all peers. Returns the result or the exception of each peer, by name.

        `rows` has X and y for each name. `through` has objects, by name, whose `join` is called instead of
        the session's. If a peer fails, the others leave.
        """
        results, stop = {}, threading.Event()

        def run(name, key):
            def on_event(event):
                if event.kind == "listening":
                    self.addresses[key.peer_id] = event.fields["address"]
                tell(name, event)

            try:
                join = through[name].join if name in (through or {}) else partial(self.session._join, stop)
                results[name] = join(
                    *rows[name], key=key, on_event=on_event, listen=LOOPBACK, mdns=False,
                    addresses=self.addresses, **given,
                )  # fmt: skip
            except BaseException as error:
                results[name] = error
                stop.set()

        threads = [threading.Thread(target=run, args=(name, self.keys[name])) for name in rows]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {name: results[name] for name in rows}  # peers end in any order

    @contextlib.contextmanager
    def program(self, name, rows, folder, *options):
        """Runs the program as a peer and asserts its success. Yields a callback for events of the other
        peers."""
        program = os.environ.get("FLYSWARM_PROGRAM")
        if program is None:
            pytest.skip("FLYSWARM_PROGRAM names the program")
        self.session.save(folder / "test.toml")
        np.savez(folder / "rows.npz", X=rows[0], y=rows[1])
        command = [program, "join", "test.toml", "--data", "rows.npz", "--key", self.keys[name].path]
        command += ["--json", "--no-mdns", "--listen", *LOOPBACK]
        command += ["--out", "test.out", *options]
        pipe = subprocess.PIPE
        other = subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

        def tell(name, event):
            if event.kind == "listening":
                line = f'{{"peer": "{self.keys[name].peer_id}", "address": "{event.fields["address"]}"}}\n'
                other.stdin.write(line)
                other.stdin.flush()

        with other:
            yield tell
            _, errors = other.communicate()
        assert other.returncode == 0, errors


@pytest.fixture
def swarm(tmp_path):
    """Returns a function that makes a swarm in its own folder."""
    return lambda *args, **given: Swarm(tmp_path, *args, **given)


@pytest.fixture(scope="session")
def digits():
    """Returns X (float32) and y (texts) of the first 600 digits."""
    X, y = load_digits(return_X_y=True)
    return np.ascontiguousarray(X[:600], np.float32), y[:600].astype(str)
