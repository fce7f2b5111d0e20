"""Checks the vectors of `summary`."""

import numpy
from parties.cells import cells
from parties.parts import Parties
from parties.shares import shared_out
from parties.words import WORDS, bits_of
from primitives.crypto import ballot_bytes, derive, le, tagged
from primitives.encoding import Ballot
from primitives.session import Session
from primitives.summary import Summary

from vectors.common import check, vectors


def check_summary():
    vector = vectors("summary")
    session = Session(vector["toml"])
    summary = session.summary
    words = [summary.words(rows) for rows in vector["rows"]]
    check("summary words", words == vector["words"])
    attempt = ballot_bytes(Ballot(*vector["ballot"])) + le(2, 4)
    keys = [derive(bytes.fromhex(pair), "computing parties", attempt) for pair in vector["pairs"]]
    salt, seeds = bytes.fromhex(vector["salt"]), [bytes.fromhex(seed) for seed in vector["seeds"]]
    owners, commitments = [], []
    for owner, own in enumerate(words):
        data = b"".join(le(word, 8) for word in own)
        commitments.append(tagged("input", session.id, le(owner, 2), salt, data))
        owners.append(shared_out(WORDS, numpy.array(own, numpy.uint64), [None], 0, owner, seeds))
    check("summary commitments", [each.hex() for each in commitments] == vector["commitments"])
    check("summary parcels", [[parcel.hex() for parcel in owner.parcels()] for owner in owners] == vector["parcels"])
    parties = Parties(keys, b"in memory")
    pattern, totals = parties.run(cells(parties, summary, owners, commitments))
    check("summary messages", parties.received() == vector["received"])
    pattern, totals = pattern[0] ^ pattern[1] ^ pattern[2], totals[0] + totals[1] + totals[2]
    check("summary pattern", pattern.tolist() == vector["pattern"])
    check("summary totals", totals.tolist() == vector["totals"])
    parts, at = [], 0
    for count in [len(summary.missing), len(summary.measures), *(5 * len(scale) for scale in summary.scales)]:
        size = -(-count // 64)
        parts.append([bit == 1 for bit in bits_of(pattern[at:at + size], count)])
        at += size
    found = summary.opened(parts[0], parts[1], sum(parts[2:], []))
    check("summary open", list(found) == vector["open"])
    check_cases(summary, vector["cases"])
    two = Session(vector["two"]["toml"]).summary
    check("summary words of two columns", two.words(vector["rows"][0]) == vector["two"]["words"])
    check_cases(two, vector["two"]["cases"])


def check_cases(summary: Summary, cases: list[dict]) -> None:
    for case in cases:
        found = summary.opened(case["cells"], case["measures"], case["quantiles"])
        check("summary case", list(found) == case["open"])
