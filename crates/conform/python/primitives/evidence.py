"""Peers that statements of computing members name (spec, section 15e.2)."""

from __future__ import annotations

from itertools import product

from .decision import is_signed
from .encoding import Account, Progress, Signed, Statement
from .session import Session

MOST = 10
BEFORE, AFTER = 0, 1


def subject(item: Statement):
    """Returns the place of a check; None for rounds."""
    return getattr(item.topic, "place", None)


def content(item: Statement) -> Account | Progress:
    return item.topic[-1]


def fails(item: Statement) -> bool:
    if subject(item):
        return not content(item).accepts or False in content(item).verdicts
    return any(content(item).missing)


def contradict(one: Signed, other: Signed) -> bool:
    """Returns whether an honest author would never sign both."""
    if one.author != other.author:
        return False
    if one.item.begins and not fails(one.item):
        return True
    if subject(one.item) == subject(other.item):
        return one.item != other.item
    return one.item.begins and other.item.begins


def judge(accounts: list[Account]) -> tuple[int, int] | None:
    """Returns the pair that contains the deviating party, by the accounts of a place."""
    for receiver in range(3):
        before, after = (receiver - 1) % 3, (receiver + 1) % 3
        its, told, also = accounts[receiver], accounts[before].told[AFTER], accounts[after].told[BEFORE]
        if its.heard[BEFORE] not in (None, told):
            return receiver, before
        if its.heard[AFTER] not in (None, also):
            return receiver, after
        if told != also:
            return before, after
        if not its.accepts or accounts[before].verdicts[AFTER] not in (None, its.accepts):
            return receiver, before
        if accounts[after].verdicts[BEFORE] not in (None, its.accepts):
            return receiver, after
    return None


def judge_progress(progress: list[Progress]) -> tuple[int, int] | None:
    """Returns the pair that contains the deviating party, if the next round does not come."""
    waiting = [party for party in range(3) if any(progress[party].missing)]
    if not waiting:
        return None
    party = min(waiting, key=lambda party: progress[party].sent)
    return party, (party - 1 if progress[party].missing[BEFORE] else party + 1) % 3


def named(session: Session, evidence: list[Signed]) -> list[int] | None:
    """Returns the peers that evidence names: the deviating one, or a pair that contains it."""
    if not 0 < len(evidence) <= MOST:
        return None
    first = evidence[0].item
    for signed in evidence:
        item = signed.item
        if (item.sum, item.parties) != (first.sum, first.parties) or signed.author not in item.parties:
            return None
        if not is_signed(session, signed):
            return None
    for one, other in product(evidence, evidence):
        if contradict(one, other):
            return [one.author]
    if any(subject(signed.item) != subject(first) for signed in evidence):
        return None
    said = {signed.author: signed.item for signed in evidence}
    if not any(item.begins for item in said.values()) or len(said) < 3:
        return None
    contents = [content(said[party]) for party in first.parties]
    pair = (judge if subject(first) else judge_progress)(contents)
    return pair and [first.parties[party] for party in pair]
