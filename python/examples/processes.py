"""Runs the peers of one session on this machine, each in a process."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor


class Meeting:
    """Addresses of the peers of a session. Each peer publishes its address and reads the addresses of the
    others."""

    def __init__(self, addresses):
        self.addresses = addresses

    def of(self, key):
        """Returns further arguments of `join` for the peer with this key."""

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
    """Runs `peer(name, key, meeting, *shared)` for each of `keys`. Returns the results by name."""
    # Processes are spawned, because the package's threads do not survive a fork.
    spawn = multiprocessing.get_context("spawn")
    with spawn.Manager() as manager, ProcessPoolExecutor(len(keys), spawn) as pool:
        meeting = Meeting(manager.dict())
        parts = {name: pool.submit(peer, name, key, meeting, *shared) for name, key in keys.items()}
        return {name: part.result() for name, part in parts.items()}
