"""Members and tree of a view, from the promises at its begin (spec, section 8, *Marks*, *Members*)."""

from __future__ import annotations

from typing import Any

from .crypto import ballot_bytes, tagged
from .session import Session

Mark = tuple[Any, int, int, int]  # ballot, author, suspect, slot
Unit = tuple[Any, int, bool, bool]  # ballot, other peer, True if this peer is the suspect, True if living


def borne(count: int) -> int:
    return (count - 1) // 3


def marks_of(signed: list[Any]) -> list[Mark]:
    """Returns the marks of items that name a peer other than their author."""
    return [(s.item.ballot, s.author, s.item.suspect, s.item.slot) for s in signed
            if s.item.suspect is not None and s.item.suspect != s.author]


def living(count: int, marks: set[Mark], now: int) -> dict[int, list[Unit]]:
    """Returns the units of each peer in pairs that are kept apart."""
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


def charged(count: int, units: dict[int, list[Unit]], candidates: set[int]) -> list[int]:
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


def pairs_of(units: dict[int, list[Unit]]) -> list[tuple[Any, int, int]]:
    """Returns the pairs that are kept apart with their ballots, oldest first."""
    return sorted({(u[0], min(p, u[1]), max(p, u[1])) for p, of in units.items() for u in of})


def known_at(count: int, marks: set[Mark], now: int) -> dict[int, list[Unit]]:
    """Does the same as `living`, without marks of slots that cannot be known yet."""
    return living(count, {m for m in marks if m[3] <= now + 1}, now)


def needed(session: Session) -> int:
    return max(session.min_peers, 3)


def candidates_of(session: Session, units: dict[int, list[Unit]], reached: dict[int, set[int]]) -> set[int]:
    """Returns the authors, and the peers that an author reaches and is not kept apart from.

    The oldest marks are dropped until there are enough candidates.
    """
    pairs = pairs_of(units)
    for dropped in range(len(pairs) + 1):
        apart = {(x, y) for _, x, y in pairs[dropped:]}
        candidates = set(reached) | {p for a, of in reached.items() for p in of
                                     if (min(a, p), max(a, p)) not in apart}
        if len(candidates) >= needed(session) and session.enough(candidates):
            break
    return candidates


def most_out(session: Session, candidates: set[int]) -> int:
    return min(borne(len(session.roster)), max(0, len(candidates) - needed(session)))


def barred(session: Session, units: dict[int, list[Unit]], candidates: set[int]) -> list[int]:
    """Returns the peers that may not lead, as long as a quorum of the committee remains."""
    out: list[int] = []
    for peer in charged(len(session.roster), units, candidates)[:most_out(session, candidates)]:
        if len((candidates - {*out, peer}) & set(session.committee)) < session.quorum:
            break
        out.append(peer)
    return out


def left_out(session: Session, units: dict[int, list[Unit]], candidates: set[int],
             authors: set[int]) -> list[int]:
    """Returns the barred peers to leave out, as long as a quorum of the peers that promised remains."""
    out: list[int] = []
    for peer in barred(session, units, candidates):
        if peer not in authors or len(authors - {*out, peer}) >= session.quorum:
            out.append(peer)
    return out


def members_of(session: Session, ballot: Any, reached: dict[int, set[int]], marks: set[Mark],
               now: int) -> dict[int, int | None] | None:
    """Returns the parent of each member, parents first; None if this leader can have no view."""
    units = known_at(len(session.roster), marks, now)
    pairs, candidates = pairs_of(units), candidates_of(session, units, reached)
    claims = [p for of in reached.values() for p in of]
    trusted = {p for p in candidates if claims.count(p) > borne(len(session.committee))}

    def allowed(x: int, y: int, bad: set[tuple[int, int]]) -> bool:
        if (min(x, y), max(x, y)) in bad:
            return False
        if x not in reached and y not in reached:
            return x in trusted and y in trusted
        return y in reached.get(x, {y}) and x in reached.get(y, {x})

    out = left_out(session, units, candidates, set(reached))
    while True:
        left = candidates - set(out)
        marked = [(b, x, y) for b, x, y in pairs if x in left and y in left]
        for dropped in range(len(marked) + 1):
            bad = {(x, y) for _, x, y in marked[dropped:]}
            members = largest(left, lambda x, y, bad=bad: allowed(x, y, bad))
            quorum = len(members & set(reached)) >= session.quorum
            if quorum and len(members) >= len(candidates) - most_out(session, candidates):
                break
        usable = quorum and len(members) >= needed(session) and session.enough(members)
        if usable or not out:
            break
        out.pop()
    leader = ballot.proposer
    if leader not in members - set(barred(session, units, candidates)) or len(members) < needed(session) or not session.enough(members):
        return None
    head = session.id + ballot_bytes(ballot)
    order = sorted(members - {leader},
                   key=lambda p: (charge(units, p, left), tagged("tree", head, session.roster[p])))
    return grow(leader, order, lambda x, y: allowed(x, y, bad))


def gives_way(session: Session, marks: set[Mark], now: int, parents: dict[int, int | None]) -> bool:
    """Returns whether this tree ignores marks: it has a barred peer, or neighbours that a mark keeps
    apart."""
    units = known_at(len(session.roster), marks, now)
    edges = {(min(p, q), max(p, q)) for p, q in parents.items() if q is not None}
    return bool(barred(session, units, set(parents))) or any((x, y) in edges for _, x, y in pairs_of(units))


def largest(peers: set[int], allowed: Any) -> set[int]:
    """Returns the largest connected set; of equally large sets the set with the lowest peer."""
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
