"""Checks the vectors of encodings, keys, streams, shares, messages and faults."""

import numpy
from primitives import Refused
from primitives.crypto import (
    CONTEXTS,
    ORDER,
    Identity,
    Stream,
    add_words,
    agree,
    derive,
    exchange_public,
    le,
    peer_id,
    read_peer_id,
    verify,
)
from primitives.encoding import TYPES, Malformed, canonical, decode, decode_message, encode_message, frame, shown
from primitives.sharing import deal, is_opened, is_sound, number, open_shares, reconstruct

from vectors.common import check, check_refused, vectors

KINDS = {context.decode(): kind.__name__ for kind, context in CONTEXTS.items()}


def check_encoding():
    file = vectors("encoding")
    for case in file["good"]:
        data = bytes.fromhex(case["bytes"])
        value = decode(case["type"], data)
        check(f"encode {case}", canonical(case["type"], value) == data)
        check(f"decode {case}", shown(case["type"], value) == case["value"])
    for case in file["lenient"]:
        check(f"lenient {case}", shown(case["type"], decode(case["type"], bytes.fromhex(case["bytes"]))) == case["value"])
    for case in file["bad"]:
        check_refused(f"encoding: {case}", case["class"], decode, case["type"], bytes.fromhex(case["bytes"]))


def check_signature(public, context, message, signature):
    if not verify(public, context, message, signature):
        raise Refused("bad-signature")


def check_identity():
    file = vectors("identity")
    for case in file["identities"]:
        public = Identity(bytes.fromhex(case["seed"])).public
        check(f"identity {case}", public.hex() == case["public"] and peer_id(public) == case["peer_id"])
        check(f"read {case}", read_peer_id(case["peer_id"]) == public)
    for case in file["signatures"]:
        seed, context, message = (bytes.fromhex(case[name]) for name in ("seed", "context", "message"))
        identity = Identity(seed)
        check(f"sign {case}", identity.sign(context, message).hex() == case["signature"])
        check_signature(identity.public, context, message, bytes.fromhex(case["signature"]))
    for case in file["bad_peer_ids"]:
        check_refused(case["what"], case["class"], read_peer_id, case["peer_id"])
    for case in file["bad_signatures"]:
        args = (bytes.fromhex(case[name]) for name in ("public", "context", "message", "signature"))
        check_refused(case["what"], case["class"], check_signature, *args)


def check_streams():
    for case in vectors("stream")["streams"]:
        key, label, params = bytes.fromhex(case["key"]), case["label"], bytes.fromhex(case["params"])
        check(f"derive {label}", derive(key, label, params).hex() == case["derived"])
        check(f"stream {label}", Stream(key, label, params).take(100).hex() == case["start"])
        check(f"seek {label}", Stream(key, label, params, 262_149).take(70).hex() == case["at_262149"])
        stream = Stream(key, label, params)
        check(f"below {label}", all(stream.below(n) == v for n, v in case["below"]))
        bounds, drawn = zip(*case["below"])
        stream = Stream(key, label, params)
        check(f"all below {label}", stream.all_below(numpy.array(bounds, numpy.uint64)).tolist() == list(drawn))
    file = vectors("agreement")
    for case in file["good"]:
        a, b, info = (bytes.fromhex(case[name]) for name in ("secret_a", "secret_b", "info"))
        check("public keys", (exchange_public(a).hex(), exchange_public(b).hex()) == (case["public_a"], case["public_b"]))
        for secret, public in ((a, case["public_b"]), (b, case["public_a"])):
            shared = agree(secret, bytes.fromhex(public))
            check("agreement", derive(shared, "agreement", info).hex() == case["key"])
    for case in file["bad"]:
        args = bytes.fromhex(case["secret"]), bytes.fromhex(case["public"])
        check_refused(f"key {case['public']}", case["class"], agree, *args)
    file = vectors("mask")
    for case in file["masks"]:
        stream = Stream(bytes.fromhex(case["key"]), case["label"], bytes.fromhex(case["params"]), case["offset"])
        vector = bytes.fromhex(case["vector"])
        masked = add_words(case["word_bits"], vector, stream.take(len(vector)), 1 if case["sign"] == "add" else -1)
        check(f"mask {case}", masked.hex() == case["masked"])
    for bits, peers, most in file["capacity"]:
        check(f"capacity {bits} {peers}", (2**bits - 1) // peers == int(most))


def check_sharing():
    file = vectors("sharing")
    for case in file["good"]:
        threshold, context = case["threshold"], bytes.fromhex(case["context"])
        members = [Identity(bytes.fromhex(seed)) for seed in case["seeds"]]
        keys, name = [member.public for member in members], f"{threshold} of {len(members)}"
        polynomial = [number(bytes.fromhex(c)) for c in case["coefficients"]]
        secret, dealt = deal(keys, polynomial, context)
        check(f"deal {name}", canonical("Dealt", dealt).hex() == case["dealt"])
        check(f"secret {name}", secret.hex() == case["secret"])
        check(f"sound {name}", is_sound(keys, threshold, context, dealt))
        shares = {}
        for opened in case["opened"]:
            place = opened["place"]
            check(f"sealed {name}", opened["sealed"] == [dealt.shares[place].hex()])
            shares[place] = check_opened(members[place], opened)[0]
        check(f"reconstruct {name}", reconstruct(shares) == secret)
    reduced = int.from_bytes(bytes.fromhex(file["reduced"]["random"]), "little") % ORDER
    check("reduced", le(reduced, 32).hex() == file["reduced"]["scalar"])
    members = [Identity(bytes.fromhex(seed)) for seed in file["seeds"]]
    keys = [member.public for member in members]
    for case in file["bad_deals"]:
        dealt = decode("Dealt", bytes.fromhex(case["dealt"]))
        check(case["what"], not is_sound(keys, file["threshold"], bytes.fromhex(case["context"]), dealt))
    check_opened(members[0], file["opened"])
    sealed = [bytes.fromhex(share) for share in file["opened"]["sealed"]]
    for case in file["bad_openings"]:
        shares = [bytes.fromhex(share) for share in case["shares"]]
        proof = bytes.fromhex(case["challenge"]), bytes.fromhex(case["response"])
        context = bytes.fromhex(case["context"])
        check(case["what"], not is_opened(keys[case["place"]], context, sealed, shares, *proof))
    for case in file["secrets"]:
        shares = {place: bytes.fromhex(share) for place, share in case["shares"]}
        check("secret of opened shares", reconstruct(shares).hex() == case["secret"])


def check_opened(member, case):
    """Checks shares that a member has opened, and their proof. Returns the shares."""
    context, sealed = bytes.fromhex(case["context"]), [bytes.fromhex(share) for share in case["sealed"]]
    shares, challenge, response = open_shares(member, context, sealed)
    check("opened shares", [share.hex() for share in shares] == case["shares"])
    check("proof of opened shares", (challenge.hex(), response.hex()) == (case["challenge"], case["response"]))
    check("right shares", is_opened(member.public, context, sealed, shares, challenge, response))
    return shares


def innermost(message):
    """Returns the names of the nested variants of a shown message, outermost first."""
    names = []
    while isinstance(message, dict) and len(message) == 1 and next(iter(message))[0].isupper():
        name, message = next(iter(message.items()))
        names.append(name)
        if name in ("Up", "Down", "Head"):
            message = message[1]
        if name == "Exchange":
            content = message["content"]
            bulk = "Bulk" in content
            message = shown("Body", decode("Body", bytes.fromhex(content["Bulk"]["header"] if bulk else content["Short"])))
            if bulk != (isinstance(message, dict) and "Part" in message):
                raise Malformed("bulk bytes of an exchange")
        if name == "Part":
            message = message["what"]
    if names[:1] == ["Exchange"] and isinstance(message, str):
        names.append(message)
    return names


def read_frame(channel, header, payload):
    message = decode_message(header, payload, channel == "bulk")
    innermost(shown("Message", message))
    return message


# Changes to a valid frame, with the reason why the result must be refused.
DEFECTS = {
    "trailing byte": ("bytes left over", lambda channel, header, payload: (channel, header + "00", payload)),
    "cut short": ("ends early", lambda channel, header, payload: (channel, header[:-2], payload)),
    "on the other channel": (
        "wrong channel",
        lambda channel, header, payload: ({"control": "bulk", "bulk": "control"}[channel], header, payload),
    ),
    "payload where none belongs": ("payload where none belongs", lambda channel, header, payload: (channel, header, "00")),
}


def check_messages():
    file = vectors("messages")
    seen = set()
    for case in file["messages"]:
        header, payload = bytes.fromhex(case["header"]), bytes.fromhex(case["payload"])
        message = read_frame(case["channel"], header, payload)
        seen.add("/".join(innermost(case["message"])))
        check(f"decode {case['what']}", shown("Message", message) == case["message"])
        check(f"encode {case['what']}", encode_message(message) == (header, payload))
        check(f"stream {case['what']}", frame(header, payload).hex() == case["stream"])
    for name in ("Message", "ViewMessage", "Report", "Order", "ReduceMessage", "TransferMessage", "Held", "Body", "What"):
        for variant in vars(TYPES[name]):
            check(f"a vector of {name} {variant}", any(variant in path.split("/") for path in seen))
    for case in file["abouts"]:
        data = bytes.fromhex(case["bytes"])
        item = decode("About", data)
        check("decode what a node tells about itself", shown("About", item) == case["item"])
        check("encode what a node tells about itself", canonical("About", item) == data)
    check("both roles", {case["item"]["role"] for case in file["abouts"]} == {"Join", "Doctor"})
    good = {case["what"]: (case["channel"], case["header"], case["payload"]) for case in file["messages"]}
    file = vectors("bad")
    for case in file["bad"]:
        args = case["channel"], bytes.fromhex(case["header"]), bytes.fromhex(case["payload"])
        name, _, defect = case["what"].rpartition(": ")
        why, one_change = None, True
        if name in good and defect in DEFECTS:
            why, change = DEFECTS[defect]
            one_change = (case["channel"], case["header"], case["payload"]) == change(*good[name])
        check_refused(case["what"], case["class"], read_frame, *args, why=why)
        check(f"{case['what']}: nothing else is wrong", one_change)
    for case in file["lenient"]:
        message = read_frame(case["channel"], bytes.fromhex(case["header"]), b"")
        check(case["what"], encode_message(message)[0].hex() == case["canonical"])


def check_faults():
    """Checks that frames are well formed and classes known. A test of blame would need a whole node."""
    file = vectors("faults")
    classes = {"malformed", "out-of-order", "inconsistent", "bad-signature", "bad-share", "bad-deal", "low-order-key", "two-values"}
    for case in file["blamed"] + file["ignored"]:
        message = read_frame(case["channel"], bytes.fromhex(case["header"]), bytes.fromhex(case["payload"]))
        check(f"fault: {case['what']}", shown("Message", message) == case["message"])
        check(f"class: {case['what']}", case.get("class", "malformed") in classes)
