"""Checks the vectors `items`: signed items, records, committed aggregates, deals and releases."""

from primitives import Refused
from primitives.crypto import Identity, exchange_public, le, make_deal, open_share, rebuild_pad, scalar, share_matches
from primitives.decision import (
    check_committed,
    check_record,
    deals_digest,
    opened_vector,
    sealed_digest,
    value_digest,
    verifies,
)
from primitives.encoding import Ballot, SumId, canonical, decode, shown

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
    "a hash is missing": "a deal of another committee",
}
COMMITTED = {
    "one acknowledgement of three": "no quorum acknowledged it",
    "one acknowledgement twice": "no quorum acknowledged it",
    "acknowledgements of two ballots": "no quorum acknowledged it",
    "acknowledgements of another value": "no quorum acknowledged it",
    "pads exchanged": "a pad does not match its hash",
    "a pad is missing, and it is no coin": "a pad is missing",
    "too few pads": "the number of pads",
}
COINS = {
    "a pad is missing and nothing shows why": "too few releases",
    "a pad is missing that the releases show to be sound": "a missing pad is sound",
    "releases although no pad is missing": "releases where no pad is missing",
    "too few releases": "too few releases",
    "releases of another value": "a release does not fit",
}


def check_item(session, signed):
    if not verifies(session, signed):
        raise Refused("bad-signature")


def check_release(session, deals, signed):
    """Returns the shares {dealer: share} of a release. Refuses one without a deal or with another hash."""
    index, shares = session.committee.index(signed.author), {}
    for dealer, share in signed.item.shares:
        deal = next((deal for deal in deals if deal.author == dealer and deal.item.sum == signed.item.sum), None)
        if deal is None:
            raise Refused("inconsistent")
        scalar(share)
        if not share_matches(session.id, deal, index, share):
            raise Refused("bad-share")
        shares[dealer] = share
    return shares


def check_deal(session, number, item, drawn):
    """Checks that a deal for this sum follows from the randomness of its dealer. Returns the pad."""
    scalars = [le(scalar(bytes.fromhex(c)), 64) for c in drawn["coefficients"]]
    draws = iter([*scalars, bytes.fromhex(drawn["ephemeral_secret"])])
    pad, deal = make_deal(session.id, number, drawn["dealer"], session.committee_keys(), len(scalars), lambda _: next(draws))
    check("pad hash", deal.pad_hash == item.pad_hash)
    check("share hashes of the deal", deal.share_hashes == item.share_hashes)
    check("boxes of the deal", deal.sealed == item.sealed and deal == item)
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
        made = identities[case["author"]].sign_item(session.id, case["author"], signed.item)
        check(f"signature on {kind}", made == signed)
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
        check("pad", pad.hex() == case["pad"] and item.pad_hash.hex() == case["pad_hash"])
    check_committed(session, decode("Committed", bytes.fromhex(file["committed"])), 1)
    for name in ("coin", "coin_with_an_unsound_deal"):
        committed = decode("Committed", bytes.fromhex(file[name]["committed"]))
        check_committed(session, committed, 0)
        check(name, opened_vector(session, committed, b"").hex() == file[name]["seed"])
    for case in file["bad"]:
        signed = decode(f"Signed<{KINDS[case['context']]}>", bytes.fromhex(case["signed"]))
        check_refused(case["what"], case["class"], check_item, session, signed)
    for case in file["bad_records"]:
        bad = decode("Record", bytes.fromhex(case["record"]))
        check_refused(case["what"], case["class"], check_record, session, bad, why=RECORDS[case["what"]])
    for case in file["bad_committed"]:
        bad = decode("Committed", bytes.fromhex(case["committed"]))
        check_refused(case["what"], case["class"], check_committed, session, bad, 1, why=COMMITTED[case["what"]])
    for case in file["bad_coins"]:
        bad = decode("Committed", bytes.fromhex(case["committed"]))
        check_refused(case["what"], case["class"], check_committed, session, bad, 0, why=COINS[case["what"]])
    for case in file["bad_releases"]:
        release = decode("Signed<Release>", bytes.fromhex(case["signed"]))
        check_item(session, release)
        check_refused(case["what"], case["class"], check_release, session, record.deals, release)
    for case in file["bad_deals"]:
        deal = decode("Signed<Deal>", bytes.fromhex(case["signed"]))
        check_item(session, deal)
        if case["holder"] is None:
            shares = {index: bytes.fromhex(share) for index, share in enumerate(case["shares"])}
            check(case["what"], rebuild_pad(session.id, deal, shares, session.quorum) is None)
        else:
            index = session.committee.index(case["holder"])
            check_refused(case["what"], case["class"], open_share, session.id, deal, index, identities[case["holder"]])
