"""Peers of one session on this machine, each a process."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor


class Meeting:
    """Where the peers of a session listen: each tells it, and each is told."""

    def __init__(self, addresses):
        self.addresses = addresses

    def of(self, key):
        """What `join` of the peer with this key is given beside its rows."""

        def on_event(event):
            if event.kind == "listening":
                self.addresses[key.peer_id] = event.fields["address"]

        return {
            "key": key,
            "on_event": on_event,
            "addresses": self.addresses,
            "mdns": False,
            "listen": ["/ip4/127.0.0.1/tcp/0"],
        }


def together(peer, keys, *shared):
    """What `peer(name, key, meeting, *shared)` gives, by name, for each of `keys`."""
    # The threads of Rust do not survive a fork.
    spawn = multiprocessing.get_context("spawn")
    with spawn.Manager() as manager, ProcessPoolExecutor(len(keys), spawn) as pool:
        meeting = Meeting(manager.dict())
        parts = {name: pool.submit(peer, name, key, meeting, *shared) for name, key in keys.items()}
        return {name: part.result() for name, part in parts.items()}
