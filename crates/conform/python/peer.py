"""A flyswarm peer of the task flynn. See README.md.

    python3 peer.py SESSION --key K --data D --state S --out O --listen ADDR [--randomness FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import sys
from pathlib import Path

PROGRAM = "peer-py 0.1"


def tcp_address(text: str) -> tuple[str, int] | None:
    """Returns host and port of a TCP multiaddress; None for any other address."""
    found = re.fullmatch("/(?:ip[46]|dns[46]?)/([^/]+)/tcp/([0-9]+)(?:/p2p/[^/]+)?", text)
    return (found[1], int(found[2])) if found else None


def listen_at(text: str) -> socket.socket:
    address = tcp_address(text)
    if address is None:
        raise ValueError(f"{text} is not an address such as /ip4/127.0.0.1/tcp/4001")
    return socket.create_server(address, family=socket.AF_INET6 if ":" in address[0] else socket.AF_INET)


def run(arguments: argparse.Namespace) -> tuple[int, str]:
    """Runs the peer. Returns the exit code and the text to print."""
    listener = listen_at(arguments.listen)
    # Imported only now, because the imports take long. The listener is already open, so peers that dial
    # wait and do not back off.
    import trio
    from machine import Machine
    from model import Task, model_file, read_rows
    from primitives.crypto import read_identity, recorded
    from primitives.session import parse_session
    from transport import Node

    from session import Session
    from store import Store, write_whole

    session = parse_session(Path(arguments.session).read_bytes(), Session)
    if len(session.roster) > 64:
        raise ValueError("this peer lacks the draw of partners (section 11) that more than 64 peers need")
    identity = read_identity(arguments.key)
    if identity.public not in session.roster:
        raise ValueError("the key belongs to no peer of the roster")
    task = Task(session, *read_rows(arguments.data, session))
    draw = os.urandom
    if arguments.randomness is not None:
        draw = recorded(json.loads(Path(arguments.randomness).read_bytes()))
    store = Store(arguments.state, identity.public, session.id)

    def done(machine: Machine) -> None:
        last = machine.committed[-1].committed.record.value
        data = model_file(session, machine.opened, task.moments(machine.opened), last.members, PROGRAM)
        write_whole(Path(arguments.out), data)
        print(f"the model is in {arguments.out}", flush=True)

    addresses = {peer: [a for a in map(tcp_address, texts) if a is not None]
                 for peer, texts in enumerate(session.addresses) if session.roster[peer] != identity.public}
    node = Node(session, identity, task, store, draw, done)
    return trio.run(node.run, listener, addresses)


def main() -> None:
    parser = argparse.ArgumentParser(description="A flyswarm peer of the task flynn. See README.md.")
    parser.add_argument("session")
    for name in ("key", "data", "state", "out", "listen"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--randomness", help="replay `flyswarm-conform play --prepare`; never with real data")
    try:
        code, text = run(parser.parse_args())
    except (ValueError, KeyError, FileNotFoundError) as error:
        code, text = 2, str(error)
    except OSError as error:
        code, text = 4, str(error)
    except KeyboardInterrupt:
        code, text = 130, "interrupted"
    except BaseExceptionGroup as group:
        code, text = 4, "; ".join(str(error) for error in group.exceptions)
    if code != 0:
        print(f"peer.py: {text}", file=sys.stderr, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
