"""Runs many sessions of three peers in one process: memory, threads and open files must not grow.

    python python/benches/soak_joins.py [sessions]

On Linux the script prints these figures at intervals, and ends with an error if they have grown. The first
tenth of the sessions is not counted, because thread pools and memory pools fill during this time.
"""

import gc
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from flyswarm import Identity, Session

SESSIONS, ROWS = 200, 300


def sizes():
    """Returns resident memory in MB, threads, and open files of this process."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(os.listdir("/proc/self/fd"))


def session(folder, X, y):
    """Runs one session of three peers, each with every third row."""
    keys = {name: Identity.new(folder / name / "key") for name in ("north", "south", "east")}
    # Without evaluation no peer waits for others that already have their result.
    made = Session.new(
        "soak", keys, features=X.shape[1], classes=["a", "b"], flynn={"m": 512, "rho": 16}, no_evaluate=True,
        timing={"start_wait_ms": 60_000, "view_timeout_ms": 30_000},
    )  # fmt: skip
    addresses, digests = {}, []

    def peer(i, key):
        def on_event(event):
            if event.kind == "listening":
                addresses[key.peer_id] = event.fields["address"]

        estimator, _ = made.join(
            X[i::3], y[i::3], key=key, on_event=on_event, addresses=addresses, mdns=False,
            listen=["/ip4/127.0.0.1/tcp/0"],
        )  # fmt: skip
        digests.append(estimator.model_.digest)

    threads = [threading.Thread(target=peer, args=each) for each in enumerate(keys.values())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(digests) == 3 and len(set(digests)) == 1, digests


def main(sessions):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(ROWS, 8)).astype(np.float32), rng.choice(["a", "b"], ROWS)
    first, begun = None, time.perf_counter()
    for done in range(1, sessions + 1):
        with tempfile.TemporaryDirectory() as folder:
            session(Path(folder), X, y)
        if done == max(1, sessions // 10):
            first = sizes()
        if done % max(1, sessions // 10) == 0:
            memory, threads, files = sizes()
            seconds = time.perf_counter() - begun
            held = f"{memory:6.1f} MB, {threads} threads, {files} files"
            print(f"{done:4} sessions, {seconds:5.0f} s: {held}", flush=True)
    # The threads of a peer end shortly after the peer.
    for _ in range(100):
        last = sizes()
        if last[1:] <= first[1:]:
            break
        time.sleep(0.1)
    grown = (last[0] - first[0]) / max(1, sessions - sessions // 10) * 1000
    held = f"threads {first[1]} -> {last[1]}, files {first[2]} -> {last[2]}"
    print(f"{3 * sessions} joins; memory grew by {grown:.1f} kB a session, {held}")
    return last[1] > first[1] or last[2] > first[2] or grown > 100


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS))
