"""Runs this peer's modules against the vectors that apply (spec, section 18).

    python3 check_vectors.py [FOLDER OF THE VECTORS]

Each function checks one file; pytest finds them as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

import numpy

import crypto
import decision
import encoding
import model
import session as sessions
from encoding import Ballot, decode, decode_message
from simulate import Simulation

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors")
h = bytes.fromhex


def vectors(name: str) -> Any:
    with open(os.path.join(VECTORS, name + ".json")) as file:
        return json.load(file)


def refused(what: str, run: Any, *errors: type[Exception]) -> None:
    try:
        run()
    except errors:
        return
    raise AssertionError(f"accepted: {what}")


def session_of(toml: str) -> sessions.Session:
    return sessions.parse_session(toml.encode())


def plain(x: Any) -> Any:
    """A decoded value as JSON has it."""
    if isinstance(x, bytes):
        return x.hex()
    if isinstance(x, tuple):
        return {k: plain(v) for k, v in x._asdict().items()}
    return [plain(i) for i in x] if isinstance(x, list) else x


def leaves(x: Any) -> list[str]:
    """All that stands in a message, without names: numbers, bytes, flags."""
    if isinstance(x, dict):
        return sorted(sum((leaves(v) for v in x.values()), []))
    if isinstance(x, (list, tuple)):
        return sorted(sum((leaves(v) for v in x), []))
    return [str(plain(x))]


def test_encoding() -> None:
    d = vectors("encoding")
    for x in d["good"]:
        assert plain(decode(x["type"], h(x["bytes"]))) == x["value"], x
        assert encoding.canonical(x["type"], decode(x["type"], h(x["bytes"]))).hex() == x["bytes"], x
    for x in d["lenient"]:
        assert plain(decode(x["type"], h(x["bytes"]))) == x["value"], x
    for x in d["bad"]:
        refused(x["what"], lambda: decode(x["type"], h(x["bytes"])), encoding.Malformed)


def test_bad() -> None:
    d = vectors("bad")
    for x in d["bad"]:
        refused(x["what"], lambda: decode_message(h(x["header"]), h(x["payload"]), x["channel"] == "bulk"),
                encoding.Malformed)
    for x in d["lenient"]:
        message = decode_message(h(x["header"]), b"", x["channel"] == "bulk")
        assert encoding.encode_message(message)[0].hex() == x["canonical"], x


def test_messages() -> None:
    d = vectors("messages")
    for x in d["messages"]:
        message = decode_message(h(x["header"]), h(x["payload"]), x["channel"] == "bulk")
        header, payload = encoding.encode_message(message)
        assert (header.hex(), payload.hex()) == (x["header"], x["payload"]), x["what"]
        assert encoding.frame(header, payload).hex() == x["stream"], x["what"]
        if x["channel"] == "control" and "exchange" not in x["what"] and "Frozen" not in str(x["message"]):
            assert leaves(message) == leaves(x["message"]), x["what"]
    for x in d["abouts"]:
        assert encoding.canonical("About", decode("About", h(x["bytes"]))).hex() == x["bytes"]


def test_identity() -> None:
    d = vectors("identity")
    for x in d["identities"]:
        identity = crypto.Identity(h(x["seed"]))
        assert (identity.public.hex(), crypto.peer_id(identity.public)) == (x["public"], x["peer_id"])
        assert crypto.read_peer_id(x["peer_id"]) == identity.public
    for x in d["bad_peer_ids"]:
        refused(x["what"], lambda: crypto.read_peer_id(x["peer_id"]), crypto.CryptoError)
    for x in d["signatures"]:
        identity = crypto.Identity(h(x["seed"]))
        assert identity.sign(h(x["context"]), h(x["message"])).hex() == x["signature"]
        assert crypto.verify(identity.public, h(x["context"]), h(x["message"]), h(x["signature"]))
    for x in d["bad_signatures"]:
        good = crypto.verify(h(x["public"]), h(x["context"]), h(x["message"]), h(x["signature"]))
        assert not good, x["what"]


def test_session() -> None:
    d = vectors("session")
    read = 0
    for x in d["good"]:
        try:
            s = session_of(x["toml"])
        except sessions.SessionError as error:
            assert "lacks" in str(error), (error, x["toml"])  # M1.1
            continue
        read += 1
        assert [[n, v.hex()] for n, v in s.fields] == x["fields"]
        assert (s.id.hex(), s.council, s.quorum, s.min_peers, s.dimension) == (
            x["id"], x["council"], x["quorum"], x["min_peers"], x["dimension"])
        assert [[p.name, p.word, p.words] for p in s.plan] == x["plan"] and [s.m, s.s, s.rho] == x["sizes"]
        assert [k.hex() for k in s.roster] == x["roster"]
    assert read == 4, read
    for x in d["bad"]:
        refused(x["what"], lambda: session_of(x["toml"]), sessions.SessionError)


def test_stream() -> None:
    for x in vectors("stream")["streams"]:
        key, label, params = h(x["key"]), x["label"], h(x["params"])
        assert crypto.derive(key, label, params).hex() == x["derived"]
        for start, offset in ((h(x["start"]), 0), (h(x["at_262149"]), 262_149)):
            assert crypto.Stream(key, label, params, offset).take(len(start)) == start
        stream = crypto.Stream(key, label, params)
        assert [[n, stream.below(n)] for n, _ in x["below"]] == x["below"]


def test_agreement() -> None:
    d = vectors("agreement")
    for x in d["good"]:
        assert crypto.exchange_public(h(x["secret_a"])).hex() == x["public_a"]
        shared = crypto.agree(h(x["secret_a"]), h(x["public_b"]))
        assert crypto.derive(shared, "agreement", h(x["info"])).hex() == x["key"]
    for x in d["bad"]:
        refused(x["class"], lambda: crypto.agree(h(x["secret"]), h(x["public"])), crypto.CryptoError)


def test_mask() -> None:
    for x in vectors("mask")["masks"]:
        vector = numpy.frombuffer(h(x["vector"]), f"<u{x['word_bits'] // 8}").copy()
        sign = 1 if x["sign"] == "add" else -1
        crypto.add_mask(vector, sign, h(x["key"]), x["label"], h(x["params"]), x["offset"])
        assert vector.tobytes().hex() == x["masked"]


def test_shamir() -> None:
    d = vectors("shamir")
    for x in d["good"]:
        coefficients = [int.from_bytes(h(c), "little") for c in x["coefficients"]]
        shares = [crypto.share_of(coefficients, c) for c in range(x["n"])]
        assert [s.hex() for s in shares] == x["shares"]
        context = h(x["context"]) + crypto.le16(x["dealer"])
        assert [crypto.share_hash(context, c, s).hex() for c, s in enumerate(shares)] == x["hashes"]
        points = {c: int.from_bytes(s, "little") for c, s in list(enumerate(shares))[-x["threshold"]:]}
        assert crypto.scalar_bytes(crypto.interpolate(points, 0)).hex() == x["key"]
    for x in d["bad"]:
        assert int.from_bytes(h(x["share"]), "little") >= crypto.ORDER
    reduced = int.from_bytes(h(d["reduced"]["random"]), "little") % crypto.ORDER
    assert crypto.scalar_bytes(reduced).hex() == d["reduced"]["scalar"]


def test_envelope() -> None:
    d = vectors("envelope")
    for x in d["good"]:
        keys = [crypto.Identity(h(s)) for s in x["seeds"]]
        context, plain_texts = h(x["context"]), [h(p) for p in x["plain"]]
        sealed = crypto.seal(context, [k.public for k in keys], plain_texts, h(x["ephemeral_secret"]))
        assert encoding.canonical("Sealed", sealed).hex() == x["encoded"]
        assert [crypto.unseal(context, sealed, c, k) for c, k in enumerate(keys)] == plain_texts
    for x in d["bad"]:
        sealed = decode("Sealed", h(x["sealed"]))
        identity = crypto.Identity(h(x["seed"]))
        refused(x["what"], lambda: crypto.unseal(h(x["context"]),
                                                 sealed, x["index"], identity), crypto.CryptoError)


def test_tree() -> None:
    d = vectors("tree")
    for x in d["trees"]:
        s, ballot = session_of(x["toml"]), Ballot(**x["ballot"])
        order = s.tree(ballot, x["members"])
        assert order == x["order"] and crypto.ballot_bytes(ballot).hex() == x["ballot_bytes"]
        assert [order[(n - 1) // 2] if n else None for n in range(len(order))] == x["parents"]
        assert (s.dealers(1, x["members"]), s.dealers(0, x["members"])) == (
            x["dealers"], x["dealers_of_coin"])


def test_items() -> None:
    d = vectors("items")
    s = session_of(d["toml"])
    identities = [crypto.Identity(h(x)) for x in d["seeds"]]
    kinds = {context.decode(): kind.__name__ for kind, context in crypto.CONTEXTS.items()}
    for x in d["good"]:
        kind = kinds[x["context"]]
        signed = decode(f"Signed<{kind}>", h(x["signed"]))
        assert encoding.canonical(kind, signed.item).hex() == x["canonical"] and decision.verifies(s, signed)
        assert identities[signed.author].sign_item(s.id, signed.author, signed.item) == signed
    for x in d["bad"]:
        assert not decision.verifies(s, decode(f"Signed<{kinds[x['context']]}>", h(x["signed"]))), x["what"]
    record = decode("Record", h(d["record"]))
    decision.check_record(s, record)
    assert decision.value_digest(s, record.value).hex() == d["value_digest"]
    assert decision.deals_digest(record.deals).hex() == d["deals_digest"]
    assert decision.sealed_digest(s, record, h(d["total"])).hex() == d["total_digest"]
    decision.check_frozen(s, decode("Frozen", h(d["frozen"])), 1)
    for x in d["bad_records"]:
        bad = decode("Record", h(x["record"]))
        refused(x["what"], lambda: decision.check_record(s, bad), decision.Fault)
    for name, slot in (("bad_frozen", 1), ("bad_coins", 0)):
        for x in d[name]:
            frozen = decode("Frozen", h(x["frozen"]))
            refused(x["what"], lambda: decision.check_frozen(s, frozen, slot), decision.Fault)
    for name in ("coin", "coin_with_an_unsound_deal"):
        frozen = decode("Frozen", h(d[name]["frozen"]))
        decision.check_frozen(s, frozen, 0)
        assert decision.opened_vector(s, frozen, b"").hex() == d[name]["seed"]
    for x in d["bad_releases"]:
        release = decode("Signed<Release>", h(x["signed"]))
        good = decision.release_fits(s, record, release) and decision.release_matches(s, record, release)
        assert not good, x["what"]
    for x in d["deals"]:
        signed = decode("Signed<Deal>", h(x["signed"]))
        drawn = map(h, [*x["coefficients"], x["ephemeral_secret"]])
        pad, deal = crypto.make_deal(s.id, signed.item.sum, x["dealer"], s.council_keys(), s.quorum,
                                     lambda n: next(drawn))
        assert (deal, pad.hex()) == (signed.item, x["pad"])
    for x in d["bad_deals"]:
        if x["holder"] is not None:
            deal, holder = decode("Signed<Deal>", h(x["signed"])), identities[x["holder"]]
            index = s.council.index(x["holder"])
            refused(x["what"], lambda: crypto.open_share(s.id, deal, index, holder), crypto.CryptoError)


def test_flynn() -> None:
    d = vectors("flynn")
    seed, rows, labels = h(d["seed"]), numpy.frombuffer(
        h(d["rows"]), "<f4").reshape(-1, 3), numpy.array(d["labels"])
    for x in d["cases"]:
        s = session_of(x["toml"])
        words = model.moments_of(rows, True).tobytes()
        assert words.hex() == x["moments"]
        moments = model.Moments(words, 3, True)
        assert model.scale(s, rows, moments).tobytes().hex() == x["scaled"], s.scaling
        prepared = model.prepared(s, seed, rows, moments)
        columns = model.matrix(seed, s.m, s.dimension, s.s)
        won = model.winners(prepared, columns, s.rho)
        assert columns.tolist() == x["matrix"] and won.tolist() == x["winners"]
        counts = model.counts_of(s, prepared, labels, seed)
        assert counts.tobytes().hex() == x["counts"]
        nothing = model.prepared(s, seed, rows[:0], moments)  # of a peer without rows
        assert not model.counts_of(s, nothing, labels[:0], seed).any()
    large = d["large"]
    columns = model.matrix(seed, large["m"], large["d"], large["s"]).astype("<u4")
    assert hashlib.sha256(columns.tobytes()).hexdigest() == large["sha256"]
    for x in d["moments"]:
        own = numpy.frombuffer(h(x["rows"]), "<f4").reshape(-1, x["features"])
        assert model.moments_of(own, x["squares"]).tobytes().hex() == x["words"]
        moments = model.Moments(h(x["words"]), x["features"], x["squares"])
        assert numpy.array(moments.means, "<f8").tobytes().hex() == x["means"]
        assert numpy.array(moments.deviations, "<f8").tobytes().hex() == x["deviations"]
    for x in d["refused_moments"]:
        refused(x, lambda: model.Moments(h(x), 1, True), model.Refused)


def simulation() -> tuple[Simulation, Any]:
    d = vectors("sum")
    s = session_of(d["toml"])
    identities = [crypto.Identity(h(x)) for x in d["seeds"]]
    tasks = [model.Task(s, numpy.array(x["rows"], numpy.float32), numpy.array(x["labels"]))
             for x in d["data"]]
    draws = [crypto.recorded({"view_secret": d["view_secrets"][me]["secret"],
                              "deals": [x for x in d["deals"] if x["dealer"] == me]}) for me in range(3)]
    run = Simulation(s, identities, tasks, draws)
    run.connect()
    return run, d


def test_sum() -> None:
    run, d = simulation()
    run.run(60_000)
    assert not run.dropped and [m.opened[q].hex() for m in run.machines for q in range(4)] == d["opened"] * 3

    def lines(log: list[Any], me: int, to: int | None, channel: str | None) -> list[Any]:
        return [x for x in log if x["from"] == me and x.get("to") == to and x.get("channel") == channel]

    for me in range(3):
        for to, channel in [(None, None)] + [(t, c) for t in range(3) for c in ("control", "bulk")]:
            mine, theirs = lines(run.log, me, to, channel), lines(d["log"], me, to, channel)
            for n, (a, b) in enumerate(zip(mine, theirs)):
                assert a == b, f"{n}th of {me} to {to}, {channel}:\nmine   {a}\ntheirs {b}"
            assert len(mine) == len(theirs), (me, to, channel, mine[len(theirs):], theirs[len(mine):])


def test_faults() -> None:
    for kind in ("blamed", "ignored"):
        for x in vectors("faults")[kind]:
            run, _ = simulation()
            run.run(x["us"])
            if x["us"] == 0:
                run.machines[x["to"]].up(x["from"], 0.0)
            machine, view = run.machines[x["to"]], run.machines[x["to"]].view
            assert not run.dropped, x["what"]
            machine.frame(x["from"], x["channel"] == "bulk", h(x["header"]), h(x["payload"]), run.now)
            if kind == "blamed":
                assert run.dropped == [(x["to"], x["from"], x["class"])], (x["what"], run.dropped)
            else:
                assert not run.dropped and machine.view is view, (x["what"], run.dropped)


def main() -> None:
    global VECTORS
    VECTORS = sys.argv[1] if len(sys.argv) > 1 else VECTORS
    failed = 0
    for name, run in list(globals().items()):
        if name.startswith("test_"):
            try:
                run()
                print(f"{name[5:]}: good")
            except Exception as error:  # shown, and the next is tried
                failed += 1
                print(f"{name[5:]}: {type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
