"""Checks the examples in the specification (worked bytes, trees) and the list of its MUSTs."""

import re

from blake3 import blake3
from primitives import PROTOCOL, sharing
from primitives.crypto import Identity, Stream, add_words, agree, agreement_key, ballot_bytes, context_of, le, total_digest
from primitives.encoding import SPECIFICATION, Ballot, SumId, canonical, decode
from primitives.members import members_of

from vectors.common import ROOT, check, session_of, vectors, words
from vectors.sums import pads_of_sum

SPEC = SPECIFICATION.read_text()


def worked_bytes():
    """Yields (name, bytes) for each line of section 12.1, from the vectors; None for an empty line."""
    file = vectors("items")
    session = session_of(file["toml"])
    sum_id, drawn = SumId(Ballot(**file["sum"]["ballot"]), file["sum"]["slot"]), file["deals"][0]
    context, total = context_of(session.id, sum_id, drawn["dealer"]), bytes.fromhex(file["total"])
    polynomial = [sharing.number(bytes.fromhex(c)) for c in drawn["coefficients"]]
    secret, dealt = sharing.deal(session.committee_keys(), polynomial, context)
    yield "id", session.id
    yield "ballot (1, 1)", ballot_bytes(sum_id.ballot)
    yield "slot 1", le(sum_id.slot, 4)
    yield None
    yield "total's bytes", total
    yield "their BLAKE3", blake3(total).digest()
    yield "tag and 0x00", PROTOCOL + b" total\0"
    yield "total = SHA-256(tag || id || ballot || slot || BLAKE3)", None
    yield "", total_digest(session.id, sum_id, total)
    yield None
    yield f"f_0 of dealer {drawn['dealer']}", bytes.fromhex(drawn["coefficients"][0])
    yield "f_1", bytes.fromhex(drawn["coefficients"][1])
    yield "f(2), of index 1", le(sharing.value(polynomial, 1), 32)
    yield "key of index 1", session.committee_keys()[1]
    yield "Y_1 = f(2) A_1", dealt.shares[1]
    yield "challenge e", dealt.challenge
    yield "response z_0", dealt.responses[0]
    yield "64 f_0 B", secret
    yield "tag and 0x00", PROTOCOL + b" pad\0"
    yield "dealer", le(drawn["dealer"], 2)
    yield "pad = SHA-256(tag || id || ballot || slot || dealer || 64 f_0 B)", None
    yield "", bytes.fromhex(drawn["pad"])
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
