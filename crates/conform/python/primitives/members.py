"""Members and tree of a view, from the promises that it begins with (spec, section 8, *Marks*, *Members*)."""

from __future__ import annotations

from typing import Any

from .crypto import ballot_bytes, tagged
from .session import Session

Mark = tuple[Any, int, int, int]  # ballot, author, suspect, slot
Unit = tuple[Any, int, bool, bool]  # ballot, other end, whether it is the suspect, whether it lives


def borne(count: int) -> int:
    return (count - 1) // 3


def marks_of(signed: list[Any]) -> list[Mark]:
    """The items that name another than their author."""
    return [(s.item.ballot, s.author, s.item.suspect, s.item.slot) for s in signed
            if s.item.suspect is not None and s.item.suspect != s.author]


def living(count: int, marks: set[Mark], now: int) -> dict[int, list[Unit]]:
    """The units of each peer whose pair is kept apart."""
    step = min(borne(count), 3) + 2
    until: dict[frozenset, int] = {}
    rank: dict[int, int] = {}
    named: dict[int, Any] = {}
    units: dict[int, list[Unit]] = {}
    for ballot, author, suspect, slot in sorted(marks):
        pair = frozenset((author, suspect))
        if until.get(pair, 0) > slot:
            continue
        for peer, other in ((author, suspect), (suspect, author)):
            again = peer == suspect and named.get(peer) == ballot
            if peer == suspect:
                named[peer] = ballot
            rank[peer] = rank.get(peer, -1) + (not again)
            end = slot + 8 * 2 ** min(rank[peer] // step, 32)
            until[pair] = max(until.get(pair, 0), end)
            units.setdefault(peer, []).append((ballot, other, peer == suspect, end > now))
    kept = {p: [u for u in of if until[frozenset((p, u[1]))] > now] for p, of in units.items()}
    return {p: of for p, of in kept.items() if of}


def charge(units: dict[int, list[Unit]], peer: int, counts: set[int]) -> int:
    alive = [u for u in units.get(peer, []) if u[3] and u[1] in counts]
    return sum(not u[2] for u in alive) + len({u[0] for u in alive if u[2]})


def left_out(count: int, units: dict[int, list[Unit]], candidates: set[int]) -> list[int]:
    if borne(count) == 0:
        return []
    theta = min(borne(count), 3)
    while True:
        out: list[int] = []
        while True:
            counts = candidates - set(out)
            most, peer = max(((charge(units, p, counts), p) for p in units if p in counts), default=(0, 0))
            if most <= theta + 1:
                break
            out.append(peer)
        if len(out) <= theta or theta >= borne(count):
            return out
        theta += 1


def bits(reached: bytes) -> set[int]:
    return {8 * i + b for i, byte in enumerate(reached) for b in range(8) if byte >> b & 1}


def members_of(session: Session, ballot: Any, reached: dict[int, set[int]], marks: set[Mark],
               now: int) -> dict[int, int | None] | None:
    """The parent of each member, each after its parent; None if no view of this leader follows."""
    count = len(session.roster)
    units = living(count, {m for m in marks if m[3] <= now + 1}, now)
    apart = {(p, u[1]) for p, of in units.items() for u in of}
    candidates = set(reached) | {p for a, of in reached.items() for p in of if (a, p) not in apart}
    needed = max(session.min_peers, 3)
    most = min(borne(count), max(0, len(candidates) - needed))
    left = set(candidates)
    for peer in left_out(count, units, candidates)[:most]:
        if len((left - {peer}) & set(session.committee)) < session.quorum:
            break
        left.discard(peer)
    claims = [p for of in reached.values() for p in of]
    trusted = {p for p in candidates if claims.count(p) > borne(len(session.committee))}
    marked = sorted({(u[0], min(p, u[1]), max(p, u[1])) for p, of in units.items() for u in of
                     if p in left and u[1] in left})

    def allowed(x: int, y: int, bad: set[tuple[int, int]]) -> bool:
        if (min(x, y), max(x, y)) in bad:
            return False
        if x not in reached and y not in reached:
            return x in trusted and y in trusted
        return y in reached.get(x, {y}) and x in reached.get(y, {x})

    for dropped in range(len(marked) + 1):
        bad = {(x, y) for _, x, y in marked[dropped:]}
        members = largest(left, lambda x, y, bad=bad: allowed(x, y, bad))
        if len(members) >= len(candidates) - most:
            break
    leader = ballot.proposer
    if leader not in members or len(members) < needed or not session.enough(members):
        return None
    head = session.id + ballot_bytes(ballot)
    order = sorted(members - {leader},
                   key=lambda p: (charge(units, p, left), tagged("tree", head, session.roster[p])))
    return grow(leader, order, lambda x, y: allowed(x, y, bad))


def largest(peers: set[int], allowed: Any) -> set[int]:
    """The largest connected set, of equal ones that with the lowest peer."""
    rest, best = set(peers), set()
    while len(rest) > len(best):
        first = min(rest)
        rest.discard(first)
        found, todo = {first}, [first]
        while todo:
            x = todo.pop()
            near = {y for y in rest if allowed(x, y)}
            rest -= near
            found |= near
            todo += near
        if len(found) > len(best):
            best = found
    return best


def grow(root: int, waiting: list[int], allowed: Any) -> dict[int, int | None]:
    parents: dict[int, int | None] = {root: None}
    children = {root: 0}
    most = 2
    while waiting:
        later = []
        for peer in waiting:
            above = next((p for p in parents if children[p] < most and allowed(p, peer)), None)
            if above is None:
                later.append(peer)
                continue
            parents[peer] = above
            children[above] += 1
            children[peer] = 0
        if len(later) == len(waiting):
            if most > len(parents) + len(waiting):
                break
            most += 1
        waiting = later
    return parents
