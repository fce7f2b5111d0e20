"""A flyswarm peer of the task flynn. See README.md.

    python3 peer.py SESSION --key K --data D --state S --out O --listen ADDR [--randomness FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import socket
import sys
import time

PROGRAM = "peer-py 0.1"


class Usage(Exception):
    """An argument that is wrong."""


def tcp_address(text: str) -> tuple[str, int] | None:
    """Host and port of a multiaddress over TCP; None for any other."""
    parts = text.split("/")
    if len(parts) >= 5 and parts[1] in ("ip4", "ip6", "dns", "dns4", "dns6") and parts[3] == "tcp":
        rest = parts[5:]
        if rest in ([], ["p2p"] + rest[1:]) and "p2p-circuit" not in rest and parts[4].isdigit():
            return parts[2], int(parts[4])
    return None


def listen_at(text: str) -> socket.socket:
    """Before the slow imports: so who dials meanwhile waits, and does not back off."""
    address = tcp_address(text)
    if address is None:
        raise Usage(f"{text} is no address such as /ip4/127.0.0.1/tcp/4001")
    return socket.create_server(address, family=socket.AF_INET6 if ":" in address[0] else socket.AF_INET)


def run(arguments: argparse.Namespace) -> tuple[int, str]:
    if arguments.network_key is not None:
        raise Usage("a network key is not supported")
    listener = listen_at(arguments.listen)
    trio, crypto, model, sessions, store_module, machine_module, transport, views = map(
        importlib.import_module,
        ("trio", "crypto", "model", "session", "store", "machine", "transport", "view"))
    try:
        session = sessions.read_session(arguments.session)
        if len(session.roster) > 64:
            raise Usage("this peer lacks the draw of partners (section 11) that more than 64 peers need")
        identity = crypto.read_identity(arguments.key)
        if identity.public not in session.roster:
            raise Usage("the key is of no peer of the roster")
        task = model.Task(session, *model.read_rows(arguments.data, session))
        secrets = views.Secrets()
        if arguments.randomness is not None:
            with open(arguments.randomness) as file:
                secrets = views.Recorded(json.load(file))
    except (sessions.SessionError, model.DataError, ValueError, KeyError, FileNotFoundError) as error:
        raise Usage(str(error)) from None
    try:
        store = store_module.Store(arguments.state, identity.public, session.id)
        machine = machine_module.Machine(session, identity, task, store.load(), time.monotonic(), secrets)
    except store_module.StateError as error:
        return 4, str(error)

    def done() -> None:
        last = machine.frozen[-1].frozen.record.value
        data = model.model_file(session, machine.opened, task.moments(machine.opened), last.members, PROGRAM)
        model.write_whole(arguments.out, data)
        print(f"the model is in {arguments.out}", flush=True)

    addresses = {}
    for peer in range(len(session.roster)):
        if peer != machine.me:
            found = [tcp_address(text) for text in session.addresses[peer]]
            addresses[peer] = [a for a in found if a is not None]
    ended = trio.run(transport.Node(machine, store, done).run, listener, addresses)
    return ended.code, ended.text


def main() -> None:
    parser = argparse.ArgumentParser(description="A flyswarm peer of the task flynn.")
    parser.add_argument("session")
    for name, text in (("key", "as flyswarm id --key FILE makes it"),
                       ("data", "CSV without header, the label last"),
                       ("state", "a folder for what must survive a restart"),
                       ("out", "the model's file"),
                       ("listen", "such as /ip4/127.0.0.1/tcp/4001")):
        parser.add_argument(f"--{name}", required=True, help=text)
    parser.add_argument("--network-key", help="refused")
    parser.add_argument("--randomness", metavar="FILE",
                        help="what to draw, from `flyswarm conform play --prepare`; never with real data")
    code, text = 4, "failed"
    try:
        code, text = run(parser.parse_args())
    except Usage as error:
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
