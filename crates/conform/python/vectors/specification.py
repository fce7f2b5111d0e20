"""Checks the examples in the specification (worked bytes, trees) and the list of its MUSTs."""

import re

from blake3 import blake3
from primitives import PROTOCOL
from primitives.crypto import Identity, Stream, add_words, agree, agreement_key, ballot_bytes, context_of, le, scalar, share_hash, share_of, total_digest
from primitives.encoding import SPECIFICATION, Ballot, SumId, canonical, decode
from primitives.members import members_of

from vectors.common import ROOT, check, session_of, vectors, words
from vectors.sums import pads_of_sum

SPEC = SPECIFICATION.read_text()


def worked_bytes():
    """Yields (name, bytes) for each line of section 12.1, from the vectors; None for an empty line."""
    file = vectors("items")
    session = session_of(file["toml"])
    number, deal = SumId(Ballot(**file["sum"]["ballot"]), file["sum"]["slot"]), file["deals"][0]
    context, total = context_of(session.id, number, 0), bytes.fromhex(file["total"])
    coefficients = [scalar(bytes.fromhex(c)) for c in deal["coefficients"]]
    share = share_of(coefficients, 1)
    yield "id", session.id
    yield "ballot (1, 1)", ballot_bytes(number.ballot)
    yield "slot 1", le(number.slot, 4)
    yield None
    yield "total's bytes", total
    yield "their BLAKE3", blake3(total).digest()
    yield "tag and 0x00", PROTOCOL + b" total\0"
    yield "total = SHA-256(tag || id || ballot || slot || BLAKE3)", None
    yield "", total_digest(session.id, number, total)
    yield None
    yield "pad of dealer 0", bytes.fromhex(deal["pad"])
    yield "coefficient of x", bytes.fromhex(deal["coefficients"][1])
    yield "share f(2) of index 1", share
    yield "tag and 0x00", PROTOCOL + b" share\0"
    yield "LE64(46)", le(len(context) - 2, 8)
    yield "dealer, index", le(0, 2) + le(1, 2)
    yield "hash = SHA-256(tag || LE64(46) || id || ballot || slot || dealer || index || share)", None
    yield "", share_hash(context, 1, share)
    yield None
    case = next(case for case in file["good"] if case["context"] == "acknowledgement")
    encoded = bytes.fromhex(case["canonical"])
    author = le(case["author"], 2)
    message = session.id + author + encoded
    signature = Identity(bytes.fromhex(file["seeds"][case["author"]])).sign(b"acknowledgement", message)
    yield "tag and 0x00", PROTOCOL + b" signature\0"
    yield "LE64(15)", le(len(b"acknowledgement"), 8)
    yield "context", b"acknowledgement"
    yield "author", author
    yield "ballot, slot", encoded[:3]
    yield "value", encoded[3:]
    yield "S = Ed25519(tag || LE64(15) || context || id || author || ballot, slot || value)", None
    yield "R of S", signature[:32]
    yield "s of S", signature[32:]
    yield "the signed item on the wire = author as u16 || ballot, slot || value || S, first bytes", None
    yield "", canonical("Signed<Acknowledgement>", decode("Signed<Acknowledgement>", bytes.fromhex(case["signed"])))[:36]
    yield None
    file = vectors("sum")
    session = session_of(file["toml"])
    ballot, number = Ballot(1, 1), 1
    params = ballot_bytes(ballot) + le(number, 4)
    public = [bytes.fromhex(view["public"]) for view in file["view_secrets"]]
    secret = bytes.fromhex(file["view_secrets"][0]["secret"])
    roster = session.roster
    keys = {other: agreement_key(session.id, ballot, secret, public[other], roster[0], roster[other]) for other in (1, 2)}
    pad = pads_of_sum(file, session, number)[0]
    yield "ballot (1, 1) || slot 1", params
    yield "X25519 of 0 and 1", agree(secret, public[1])
    yield "k_01", keys[1]
    yield "X25519 of 0 and 2", agree(secret, public[2])
    yield "k_02", keys[2]
    yield "pad of peer 0", pad
    streams = [
        Stream(keys[1], "mask", params).take(4),
        Stream(keys[2], "mask", params).take(4),
        Stream(pad, "pad", params).take(4),
    ]
    yield "x, word 0", words([1])
    for name, stream in zip(("+ Stream(k_01)", "+ Stream(k_02)", "+ Stream(pad)"), streams):
        yield name, stream
    masked = words([1])
    for sign_of, stream in zip((1, 1, 1), streams):
        masked = add_words(32, masked, stream, sign_of)
    yield "y, word 0", masked
    sent = next(e for e in file["log"] if e.get("channel") == "bulk" and e["from"] == 0 and e["header"] == "0802000101010000")
    check("the masked word is what was sent", sent["payload"].startswith(masked.hex()))


def worked_text():
    lines = []
    for entry in worked_bytes():
        name, data = entry or ("", None)
        lines.append(f"{name:<24}{data.hex()}" if data is not None else name)
    return "\n".join(lines)


def check_worked():
    shown = SPEC.split("### 12.1")[1].split("```text\n")[1].split("\n```")[0]
    for expected, found in zip(worked_text().split("\n"), shown.split("\n"), strict=True):
        check(f"worked bytes: {expected}", expected == found)


def tree_of_all(session):
    """Returns the tree of the first view if all peers reach each other."""
    reached = {author: set(range(len(session.roster))) for author in session.committee}
    return list(members_of(session, Ballot(1, session.committee[0]), reached, set(), 0))


def check_trees_shown():
    """Checks the trees of section 6.2: their sessions and the order of their members."""
    shown = " ".join(SPEC.split("### 6.2")[1].split("## 7.")[0].split())
    session = session_of(vectors("sum")["toml"])
    order = tree_of_all(session)
    check("the tree of three", f"The tree is {', '.join(map(str, order))}." in shown)
    number = int(shown.split("Five peers.** Session ")[1].split()[0])
    session = session_of(vectors("session")["good"][number]["toml"])
    order = tree_of_all(session)
    check("the tree of five", f"The tree is {', '.join(map(str, order))}." in shown)


def check_musts():
    """Checks that tests/vectors/README.md has one row for each numbered MUST.

    Also checks that the vectors and tests in these rows exist.
    """
    numbers = re.findall(r"\[(M\w+\.\d+)\](?!, are)", SPEC)
    rows = re.findall(r"^\| (M\w+\.\d+) \|[^|]*\|([^|]*)\|([^|]*)\|$", (ROOT / "tests/vectors/README.md").read_text(), re.M)
    check("no number twice", len(numbers) == len(set(numbers)))
    check("a row for every MUST, in order", [number for number, _, _ in rows] == numbers)
    source = "\n".join(path.read_text() for top in ("src", "crates", "tests") for path in (ROOT / top).rglob("*.rs"))
    tests = set(re.findall(r"\bfn (\w+)", source))
    for number, files, names in rows:
        for name in re.findall(r"^ `(\w+)`|; `(\w+)`", files):
            check(f"{number}: {name} is a vector", (ROOT / "tests/vectors" / f"{''.join(name)}.json").exists())
        for name in re.findall(r"`(\w+)`", names):
            check(f"{number}: {name} is a test", name in tests)
