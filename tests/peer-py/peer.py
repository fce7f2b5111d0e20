"""A flyswarm peer of the task flynn. See README.md.

    python3 peer.py SESSION --key K --data D --state S --out O --listen ADDR
"""

from __future__ import annotations

import argparse
import sys
import time

import trio

from crypto import read_identity
from machine import Machine
from model import DataError, Task, model_file, read_rows, write_whole
from session import SessionError, read_session
from store import StateError, Store
from transport import Node

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


def run(arguments: argparse.Namespace) -> tuple[int, str]:
    if arguments.network_key is not None:
        raise Usage("a network key is not supported: the cipher of py-libp2p is not XSalsa20")
    session = read_session(arguments.session)
    if len(session.roster) > 64:
        raise SessionError("this peer lacks the draw of partners (section 11) that more than 64 peers need")
    identity = read_identity(arguments.key)
    if identity.public not in session.roster:
        raise Usage("the key is of no peer of the roster")
    listen = tcp_address(arguments.listen)
    if listen is None:
        raise Usage(f"{arguments.listen} is no address such as /ip4/127.0.0.1/tcp/4001")
    task = Task(session, *read_rows(arguments.data, session))
    store = Store(arguments.state, identity.public, session.id)
    machine = Machine(session, identity, task, store.load(), time.monotonic())

    def done() -> None:
        last = machine.frozen[-1].frozen.record.value
        data = model_file(session, machine.opened, task.moments(machine.opened), last.members,
                          arguments.written_by)
        write_whole(arguments.out, data)
        print(f"the model is in {arguments.out}", flush=True)

    node = Node(machine, store, done)
    addresses = {}
    for peer in range(len(session.roster)):
        if peer != machine.me:
            found = [tcp_address(text) for text in session.addresses[peer]]
            addresses[peer] = [a for a in found if a is not None]
    ended = trio.run(node.run, listen, addresses)
    return ended.code, ended.text


def main() -> None:
    parser = argparse.ArgumentParser(description="A flyswarm peer of the task flynn.")
    parser.add_argument("session")
    for name, text in (("key", "as flyswarm keygen writes it"),
                       ("data", "CSV without header, the label last"),
                       ("state", "a folder for what must survive a restart"), ("out", "the model's file"),
                       ("listen", "such as /ip4/127.0.0.1/tcp/4001")):
        parser.add_argument(f"--{name}", required=True, help=text)
    parser.add_argument("--network-key", help="refused")
    parser.add_argument("--written-by", default=PROGRAM, help="the program that the model file names")
    code, text = 4, "failed"
    try:
        code, text = run(parser.parse_args())
    except (SessionError, DataError, Usage, ValueError, FileNotFoundError) as error:
        code, text = 2, str(error)
    except (StateError, OSError) as error:
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
