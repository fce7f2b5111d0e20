"""Checks of records, decisions, committed slots and promises; obligations (spec, sections 8 and 10)."""

from __future__ import annotations

from typing import Any

from . import Refused
from .crypto import CONTEXTS, CryptoError, add_mask, context_of, item_message, le16, sum_bytes, tagged, total_digest, verify
from .encoding import Accepted, Acknowledgement, Ballot, Begun, Committed, Deal, Promised, Record, Release, Signed, Value, canonical
from .members import bits, marks_of, members_of
from .session import Session
from .sharing import check_release, is_sound, rebuild_pad

CHUNK = 262_144
MOST_MARKS = 256


class Fault(Refused):
    """A broken rule. `kind` is one of section 17. Without a peer the sender is at fault."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def expect(good: bool, kind: str, text: str) -> None:
    if not good:
        raise Fault(kind, text)


def ascend(members: list[int], limit: int) -> bool:
    """Returns whether there are members, strictly ascending and all below a limit."""
    return members != [] and members == sorted(set(members)) and members[-1] < limit


def has_lengths(session: Session, item: Any) -> bool:
    """Returns whether the lists in an item have valid lengths (section 3.1)."""
    c = len(session.committee)
    if isinstance(item, Deal):
        return len(item.dealt.shares) == c and len(item.dealt.responses) == session.quorum
    if isinstance(item, Release):
        return len(item.shares) <= c
    if isinstance(item, Begun):
        return len(item.promises) <= c and all(has_lengths(session, p.item) for p in item.promises)
    bitmap = -(-len(session.roster) // 8)
    return not isinstance(item, Promised) or (
        len(item.decision) <= c and len(item.reached) == bitmap and len(item.marks) <= MOST_MARKS)


def verifies(session: Session, signed: Signed) -> bool:
    return is_signed(session, signed) and (not isinstance(signed.item, Deal) or deal_is_sound(session, signed))


def deal_is_sound(session: Session, signed: Signed[Deal]) -> bool:
    context = context_of(session.id, signed.item.sum, signed.author)
    return is_sound(session.committee_keys(), session.quorum, context, signed.item.dealt)


def misdealers(session: Session, deals: list[Signed[Deal]]) -> list[int]:
    """Returns the dealers that have signed a deal that is not sound."""
    return [d.author for d in deals if is_signed(session, d) and not deal_is_sound(session, d)]


def is_signed(session: Session, signed: Signed) -> bool:
    author, item, signature = signed
    return author < len(session.roster) and has_lengths(session, item) and verify(
        session.roster[author], CONTEXTS[type(item)], item_message(session.id, author, item), signature)


def value_digest(session: Session, value: Value) -> bytes:
    return tagged("value", session.id, canonical("Value", value))


def deals_digest(deals: list[Signed[Deal]]) -> bytes:
    return tagged("deals", canonical("Vec<Signed<Deal>>", deals))


def check_record(session: Session, record: Record) -> None:
    value, kind = record.value, "bad-record"
    members, slot = value.members, value.sum.slot
    expect(ascend(members, len(session.roster)), kind, "members do not ascend, or are not in the roster")
    expect(slot < len(session.plan), kind, "no such slot")
    expect(deals_digest(record.deals) == value.deals, kind, "the deals do not match their digest")
    expect([d.author for d in record.deals] == session.dealers(slot, members), kind, "other dealers")
    for deal in record.deals:
        expect(deal.item.sum == value.sum, kind, "a deal of another sum")
        expect(has_lengths(session, deal.item), kind, "a deal of another committee")
        expect(is_signed(session, deal), kind, "the signature of a deal")
        expect(deal_is_sound(session, deal), kind, "a deal that is not sound")


def decides(session: Session, acks: list[Signed[Acknowledgement]], slot: int, digest: bytes) -> bool:
    """Returns whether a quorum of the committee acknowledges this value in one ballot (section 10)."""
    authors = {a.author for a in acks}
    if not (session.quorum <= len(authors) == len(acks) and authors <= set(session.committee)):
        return False
    wanted = Acknowledgement(acks[0].item.ballot, slot, digest)
    return all(a.item == wanted and verifies(session, a) for a in acks)


def release_fits(session: Session, record: Record, signed: Signed[Release]) -> bool:
    item = signed.item
    return (item.sum == record.value.sum and item.value == value_digest(session, record.value)
            and signed.author in session.committee)


def release_matches(session: Session, record: Record, signed: Signed[Release]) -> bool:
    """Returns whether a release is right (section 12)."""
    index = session.committee.index(signed.author)
    try:
        check_release(session.id, record.deals, signed, index, session.roster[signed.author])
    except CryptoError:
        return False
    return True


def pads_of(session: Session, record: Record, releases: list[Signed[Release]]) -> list[bytes]:
    """Returns every pad, from releases that match (section 12)."""
    pads = []
    for place, deal in enumerate(record.deals):
        shares = {session.committee.index(r.author): r.item.shares[place] for r in releases}
        pads.append(rebuild_pad(session.id, deal, shares, session.quorum))
    return pads


def check_committed(session: Session, committed: Committed, slot: int) -> None:
    kind, record = "bad-record", committed.record
    expect(record.value.sum.slot == slot, kind, "another slot")
    check_record(session, record)
    digest = value_digest(session, record.value)
    expect(decides(session, committed.acknowledgements, slot, digest), kind, "no quorum acknowledged the value")
    authors = {r.author for r in committed.releases}
    due = session.quorum if record.deals else 0
    expect(len(authors) == len(committed.releases) == due, kind, "not the releases of a quorum")
    for release in committed.releases:
        good = release_fits(session, record, release) and verifies(session, release)
        expect(good and release_matches(session, record, release), kind, "a release does not fit")
    pads = pads_of(session, record, committed.releases)
    expect(pads == committed.pads, kind, "the pads are not those of the releases")


def opened_vector(session: Session, committed: Committed, total: bytes) -> bytes:
    """Returns the seed if the slot is the coin; otherwise the sealed total without its pads (sections
    10 and 12)."""
    value, deals = committed.record.value, committed.record.deals
    if value.sum.slot == 0:
        parts = [le16(d.author) + pad for d, pad in zip(deals, committed.pads)]
        return tagged("seed", session.id, *parts)
    for pad in committed.pads:
        total = add_mask(8 * session.plan[value.sum.slot].word, total, -1, pad, "pad", sum_bytes(value.sum))
    return total


def check_promise(session: Session, signed: Signed[Promised], ballot: Ballot) -> None:
    """Checks a promise (section 8, *checks*). Signatures are checked last."""
    promise, kind = signed.item.promise, "inconsistent"
    expect(signed.item.ballot == ballot, kind, "a promise of another ballot")
    expect(signed.author in session.committee, kind, "a promise from outside the committee")
    expect(promise.committed <= len(session.plan), kind, "more slots committed than there are")
    accepted = promise.accepted
    if accepted is not None:
        good = accepted.slot == promise.committed < len(session.plan) and accepted.ballot < ballot
        expect(good, kind, "the accepted value is of another slot or ballot")
    expect(promise.released == bool(signed.item.decision), kind, "released without a decision")
    expect(not promise.released or accepted is not None, kind, "released, but not accepted")
    expect(max(bits(signed.item.reached), default=0) < len(session.roster), kind, "reaches a peer outside the roster")
    shown, peers = signed.item.marks, len(session.roster)
    marks = marks_of(shown)
    good = (len(marks) == len(shown) and marks == sorted(set(marks))
            and all(m[0] < ballot and m[2] < peers for m in marks))
    expect(good, kind, "a mark that is not of an earlier view")
    expect(verifies(session, signed), "bad-signature", "the signature of a promise")
    expect(all(verifies(session, mark) for mark in shown), "bad-signature", "the signature of a mark")
    if promise.released:
        good = decides(session, signed.item.decision, accepted.slot, accepted.value)
        expect(good, kind, "the decision of a promise does not decide")


def obligation(promises: list[Signed[Promised]]) -> tuple[int, Accepted | None, list[int]]:
    """Returns the highest number of committed slots, the value to finish or None, and the peers that
    have this value."""
    states = {p.author: p.item.promise for p in promises}
    most = max(state.committed for state in states.values())
    having = {a: state for a, state in states.items() if state.committed == most and state.accepted is not None}
    candidates = {a: state for a, state in having.items() if state.released} or having
    if not candidates:
        return most, None, []
    best = max(candidates, key=lambda a: (candidates[a].accepted.ballot, -a))
    accepted = candidates[best].accepted
    return most, accepted, [a for a, state in having.items() if state.accepted.value == accepted.value]


def tree_of(session: Session, ballot: Ballot, promises: list[Signed[Promised]]) -> dict[int, int | None] | None:
    """Returns the parent of each member of the view that begins with these promises (8, *Members*)."""
    reached = {p.author: bits(p.item.reached) for p in promises}
    marks = {mark for p in promises for mark in marks_of(p.item.marks)}
    return members_of(session, ballot, reached, marks, obligation(promises)[0])


def sealed_digest(session: Session, record: Record, total: bytes) -> bytes:
    return total_digest(session.id, record.value.sum, total)


def chunk_count(length: int) -> int:
    return -(-length // CHUNK)

