"""Checks the vectors `items`: signed items, records, committed aggregates, deals and releases."""

from primitives import Refused
from primitives.crypto import Identity, exchange_public
from primitives.decision import (
    check_committed,
    check_record,
    deal_is_sound,
    deals_digest,
    is_signed,
    misdealers,
    opened_vector,
    sealed_digest,
    value_digest,
    verifies,
)
from primitives.encoding import Ballot, SumId, canonical, decode, shown
from primitives.sharing import check_release, make_deal, make_release

from vectors.common import check, check_refused, session_of, vectors
from vectors.wire import KINDS

# Reasons why the records and committed aggregates of items.json must be refused.
RECORDS = {
    "deals do not match their digest": "the deals do not match their digest",
    "no such slot": "no such slot",
    "members not ascending": "members do not ascend, or are not in the roster",
    "a member outside the roster": "members do not ascend, or are not in the roster",
    "no members": "members do not ascend, or are not in the roster",
    "a deal is missing": "other dealers",
    "deals not in committee order": "other dealers",
    "a deal is forged": "the signature of a deal",
    "deals of another sum": "a deal of another sum",
    "a share is missing": "a deal of another committee",
    "a share that its holder cannot open": "a deal that is not sound",
}
COMMITTED = {
    "one acknowledgement of three": "no quorum acknowledged the value",
    "one acknowledgement twice": "no quorum acknowledged the value",
    "acknowledgements of two ballots": "no quorum acknowledged the value",
    "acknowledgements of another value": "no quorum acknowledged the value",
    "pads exchanged": "the pads are not those of the releases",
    "too few pads": "the pads are not those of the releases",
    "no releases": "not the releases of a quorum",
    "too few releases": "not the releases of a quorum",
    "more releases than a quorum": "not the releases of a quorum",
    "one release twice": "not the releases of a quorum",
    "releases of another value": "a release does not fit",
    "a release of a wrong share": "a release does not fit",
    "a forged release": "a release does not fit",
}


def check_item(session, signed):
    if not verifies(session, signed):
        raise Refused("bad-signature")


def check_released(session, deals, signed):
    """Checks a release against the deals (section 12)."""
    check_release(session.id, deals, signed, session.committee.index(signed.author), session.roster[signed.author])


def check_deal(session, number, item, drawn):
    """Checks that a deal for this sum follows from the randomness of its dealer. Returns the pad."""
    draws = [bytes.fromhex(c) + bytes(32) for c in drawn["coefficients"]]
    pad, deal = make_deal(session.id, number, drawn["dealer"], session.committee_keys(), len(draws), lambda _: draws.pop(0))
    check("shares of the deal", deal.dealt.shares == item.dealt.shares)
    check("proof of the deal", deal == item)
    return pad


def check_items():
    file = vectors("items")
    session = session_of(file["toml"])
    identities = [Identity(bytes.fromhex(seed)) for seed in file["seeds"]]
    check("seeds", [identity.public for identity in identities] == session.roster)
    for case in file["good"]:
        kind = KINDS[case["context"]]
        signed = decode(f"Signed<{kind}>", bytes.fromhex(case["signed"]))
        check(f"canonical {kind}", canonical(kind, signed.item).hex() == case["canonical"])
        check(f"decode {kind}", shown(kind, signed.item) == case["item"] and signed.author == case["author"])
        owner, index = identities[case["author"]], session.committee.index(case["author"])
        made = owner.sign_item(session.id, case["author"], signed.item)
        check(f"signature on {kind}", made == signed)
        if kind == "Release":
            deals = [decode("Signed<Deal>", bytes.fromhex(deal["signed"])) for deal in file["deals"]]
            parts = signed.item.sum, signed.item.value, case["author"], index, deals, owner
            check("shares and proof of a release", make_release(session.id, *parts) == signed.item)
        check_item(session, signed)
        if kind == "ViewKey":
            secret = bytes.fromhex(file["view_secrets"][case["author"]])
            check("view key", exchange_public(secret).hex() == case["item"]["public"])
    record, value = decode("Record", bytes.fromhex(file["record"])), decode("Value", bytes.fromhex(file["value"]))
    number = SumId(Ballot(**file["sum"]["ballot"]), file["sum"]["slot"])
    check("record", record.value == value and value.sum == number)
    check_record(session, record)
    check("total", sealed_digest(session, record, bytes.fromhex(file["total"])).hex() == file["total_digest"])
    check("total in value", value.total.hex() == file["total_digest"])
    check("deals digest", deals_digest(record.deals).hex() == file["deals_digest"])
    check("value digest", value_digest(session, value).hex() == file["value_digest"])
    for case in file["deals"]:
        item = decode("Signed<Deal>", bytes.fromhex(case["signed"])).item
        pad = check_deal(session, number, item, case)
        check("pad", pad.hex() == case["pad"])
    check_committed(session, decode("Committed", bytes.fromhex(file["committed"])), 1)
    committed = decode("Committed", bytes.fromhex(file["coin"]["committed"]))
    check_committed(session, committed, 0)
    check("coin", opened_vector(session, committed, b"").hex() == file["coin"]["seed"])
    for case in file["bad"]:
        signed = decode(f"Signed<{KINDS[case['context']]}>", bytes.fromhex(case["signed"]))
        check_refused(case["what"], case["class"], check_item, session, signed)
    for case in file["bad_records"]:
        bad = decode("Record", bytes.fromhex(case["record"]))
        check_refused(case["what"], case["class"], check_record, session, bad, why=RECORDS[case["what"]])
    for case in file["bad_committed"]:
        bad = decode("Committed", bytes.fromhex(case["committed"]))
        check_refused(case["what"], case["class"], check_committed, session, bad, 1, why=COMMITTED[case["what"]])
    for case in file["bad_releases"]:
        release = decode("Signed<Release>", bytes.fromhex(case["signed"]))
        check_item(session, release)
        check_refused(case["what"], case["class"], check_released, session, record.deals, release)
    for case in file["bad_deals"]:
        deal = decode("Signed<Deal>", bytes.fromhex(case["signed"]))
        check(f"{case['what']}: signed, and not sound", is_signed(session, deal) and not deal_is_sound(session, deal))
        check(f"{case['what']}: its dealer is named", misdealers(session, [deal]) == [deal.author])
        check("class of a bad deal", case["class"] == "bad-deal")
