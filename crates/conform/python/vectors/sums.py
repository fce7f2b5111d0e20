"""Checks the vector `sum`: every frame of a session of three peers."""

import struct

from primitives import VERSION
from primitives.crypto import (
    Identity,
    Stream,
    add_words,
    agreement_key,
    ballot_bytes,
    exchange_public,
    le,
    sum_bytes,
    total_digest,
)
from primitives.decision import check_promise, check_record, decides, pads_of, tree_of, value_digest, verifies
from primitives.encoding import TYPES, SumId, encode_message, shown
from primitives.sharing import make_release

from vectors.common import check, session_of, vectors, words
from vectors.learning import column_sums, count, matrix, scaler, winners
from vectors.records import check_deal, check_released
from vectors.sessions import partners, seed_of
from vectors.wire import innermost, read_frame


def signed_of(message):
    """Yields all signed items in a message."""
    if isinstance(message, TYPES["Signed"]):
        yield message
    elif isinstance(message, (list, tuple)):
        for part in message:
            yield from signed_of(part)


class Slot:
    """Content of the frames of one slot."""

    def __init__(self):
        self.up, self.holds, self.acks, self.total, self.record = {}, set(), {}, b"", None


def check_sum():
    file = vectors("sum")
    session = session_of(file["toml"])
    plan = session.plan
    identities = [Identity(bytes.fromhex(seed)) for seed in file["seeds"]]
    disk = {peer: set() for peer in range(3)}
    slots = {slot: Slot() for slot in range(len(plan))}
    begun, up, keys, pads, opened = None, None, None, {}, {}
    hello = {(a, b) for a in range(3) for b in range(3) if a != b}
    for entry in file["log"]:
        peer = entry["from"]
        if "persist" in entry:
            disk[peer].add(entry["persist"])
            if entry["persist"] == "accepted":
                slots[len([name for name in disk[peer] if name.startswith("committed")])].acks.setdefault(peer, False)
            continue
        to, payload = entry["to"], bytes.fromhex(entry["payload"])
        message = read_frame(entry["channel"], bytes.fromhex(entry["header"]), payload)
        check("frames are canonical", encode_message(message)[0].hex() == entry["header"])
        for signed in signed_of(message):
            check("items are signed by the author", verifies(session, signed))
        names = innermost(shown("Message", message))
        # Order or report of a view message.
        inner = message.message[1] if names[:2] in (["View", "Up"], ["View", "Down"]) else None
        match names:
            case ["Hello"]:
                hello.discard((peer, to))
                check("hello", tuple(message) == (VERSION, session.id, 0, None))
            case ["Prepare"]:
                check("prepare", message.ballot.proposer == peer and "promised" in disk[peer])
            case ["Promise"]:
                promised = message.signed.item
                check_promise(session, message.signed, promised.ballot)
                check("promise", promised.ballot.proposer == to and "promised" in disk[peer])
                check("nothing accepted", tuple(promised.promise) == (0, None, False) and not promised.decision)
            case ["Begin"]:
                begun = message.signed.item
                check("begin is the leader's", message.signed.author == begun.ballot.proposer == peer)
                up = tree_of(session, begun.ballot, begun.promises)
                check("begin", up[to] == peer and "joined" in disk[peer])
                for signed in begun.promises:
                    check_promise(session, signed, begun.ballot)
                authors = {signed.author for signed in begun.promises}
                check("a quorum promises", len(authors) == len(begun.promises) >= session.quorum)
            case ["View", "Up", "Keys"]:
                check("keys go up", up[peer] == to and "joined" in disk[peer])
            case ["View", "Down", "Keys"]:
                keys = {item.author: item.item.public for item in inner.items}
                check("all keys", sorted(keys) == sorted(up))
                expected = {peer: exchange_public(bytes.fromhex(file["view_secrets"][peer]["secret"])) for peer in keys}
                check("view secrets", keys == expected)
            case ["View", "Down", "Sum"]:
                check("slots in order", inner.slot == 0 or f"committed-{inner.slot - 1}" in disk[peer])
            case ["View", "Reduce", "Chunk"]:
                chunk = message.message.message
                slot = slots[chunk.sum.slot]
                if type(chunk.direction) is str and chunk.direction == "Up":
                    check("chunk up", up[peer] == to and chunk.index == 0)
                    slot.up[peer] = payload
                else:
                    check("chunk down", up[to] == peer and slot.total in (b"", payload))
                    slot.total = payload
            case ["View", "Up", "TotalReady"]:
                slot = slots[inner.slot]
                slot.holds.add(inner.total)
                sum_id = SumId(begun.ballot, inner.slot)
                check("total held", total_digest(session.id, sum_id, slot.total) == inner.total)
            case ["View", "Down", "Accept"]:
                check_record(session, inner.record)
                slot = slots[inner.record.value.sum.slot]
                slot.record = inner.record
                check("the total accepted", slot.holds == {inner.record.value.total})
            case ["View", "Up", "Acknowledge"]:
                slot = slots[inner.slot]
                check("stored before it is acknowledged", all(item.author in slot.acks for item in inner.items))
                digest = value_digest(session, slot.record.value)
                check("value acknowledged", all(item.item.value == digest for item in inner.items))
            case ["View", "Down", "Decide"]:
                digest = value_digest(session, slots[inner.slot].record.value)
                check("decided", decides(session, inner.items, inner.slot, digest))
            case ["View", "Down", "Open"] if to == list(up)[1]:
                number, releases = inner
                record = slots[number].record
                for release in releases:
                    check("released on disk", "released" in disk[release.author])
                    check("value released", release.item.value == value_digest(session, record.value))
                    check_released(session, record.deals, release)
                    index, owner = session.committee.index(release.author), identities[release.author]
                    parts = record.value.sum, release.item.value, release.author, index, record.deals, owner
                    check("release of its author", make_release(session.id, *parts) == release.item)
                pads[number] = dict(zip([deal.author for deal in record.deals], pads_of(session, record, releases)))
                if number == 0:
                    opened[0] = seed_of(session, pads[0])
                else:
                    data, bits = slots[number].total, 8 * plan[number].word
                    for pad in pads[number].values():
                        data = add_words(bits, data, Stream(pad, "pad", sum_bytes(record.value.sum)).take(len(data)), -1)
                    opened[number] = data
                check(f"opened slot {number}", opened[number].hex() == file["opened"][number])
    check("all peers greet each other", not hello)
    check("every slot is opened", sorted(opened) == list(range(len(plan))))
    for drawn in file["deals"]:
        record = slots[drawn["slot"]].record
        item = next(deal.item for deal in record.deals if deal.author == drawn["dealer"])
        check_deal(session, record.value.sum, item, drawn)
    check("every deal is shown", len(file["deals"]) == sum(len(slots[slot].record.deals) for slot in opened))

    # Compute every peer's vector from its rows and masks, and the sum of all vectors.
    scale = scaler(session, opened[2])
    rows_of_m = list(matrix(opened[0], session.m, session.dimension, session.s))
    rows = [[list(struct.unpack("<3f", struct.pack("<3f", *row))) for row in data["rows"]] for data in file["data"]]
    for number in range(1, len(plan)):
        _, width, length = plan[number]
        total, sealed = bytes(width * length), bytes(width * length)
        for peer in range(3):
            labels = file["data"][peer]["labels"]
            if number == 1:
                vector = words([int(bool(labels)), *(int(c in labels) for c in range(len(session.classes)))])
            elif number == 2:
                vector = column_sums(rows[peer], session)
            else:
                won = [winners(session, opened[0], rows_of_m, scale, row) for row in rows[peer]]
                vector = words(count(session, won, labels))
            total = add_words(8 * width, total, vector)
            ballot = begun.ballot
            params = ballot_bytes(ballot) + le(number, 4)
            secret = bytes.fromhex(file["view_secrets"][peer]["secret"])
            for other in partners(session, sorted(keys), bytes(32), peer):
                key = agreement_key(session.id, ballot, secret, keys[other], session.roster[peer], session.roster[other])
                stream = Stream(key, "mask", params).take(len(vector))
                vector = add_words(8 * width, vector, stream, 1 if peer < other else -1)
            if peer in pads[number]:
                vector = add_words(8 * width, vector, Stream(pads[number][peer], "pad", params).take(len(vector)))
            if peer in slots[number].up:
                check(f"what peer {peer} sends up in slot {number}", slots[number].up[peer] == vector)
            sealed = add_words(8 * width, sealed, vector)
        check(f"sealed total of slot {number}", sealed == slots[number].total)
        check(f"sum of slot {number}", total == opened[number])


def pads_of_sum(file, session, number):
    """Returns {dealer: pad} of a slot in `sum`, from the released shares."""
    record = None
    for entry in file["log"]:
        if "header" not in entry:
            continue
        message = read_frame(entry["channel"], bytes.fromhex(entry["header"]), bytes.fromhex(entry["payload"]))
        match innermost(shown("Message", message)):
            case ["View", "Down", "Accept"]:
                accepted = message.message.order.record
                record = accepted if accepted.value.sum.slot == number else None
            case ["View", "Down", "Open"] if record is not None:
                releases = message.message.order.items
                for release in releases:
                    check_released(session, record.deals, release)
                return dict(zip([deal.author for deal in record.deals], pads_of(session, record, releases)))
    raise AssertionError("no such slot is opened")
