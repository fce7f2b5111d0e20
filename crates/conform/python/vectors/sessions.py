"""Checks the vectors `session`, `tree` and `members`.

These vectors have ids, plans, columns, trees, members of views, and draws of partners. """

import csv
import io
import math

from primitives import Refused
from primitives.crypto import add_words, ballot_bytes, le, tagged, wide_words
from primitives.encoding import Ballot
from primitives.members import barred, bits, candidates_of, known_at, left_out, members_of
from primitives.session import Session, f32, parse_session

from vectors.common import check, check_refused, session_of, vectors
from vectors.learning import moments, opened_moments


def row_of(table, cells):
    """Returns the numbers of a row, from a map of column names to texts."""
    out = []
    for column in table.columns:
        text, kind, fill = cells[column["name"]].strip(), column["kind"], column.get("fill")
        levels = column.get("levels", [])
        other = text in table.missing or column.get("others_missing", False)
        missing = text == "" or other and text not in levels
        if kind == "ignored":
            continue
        if kind in ("category", "ordinal"):
            level = fill if missing else text
            places = [float(level == other) for other in column["levels"]]
            out += places if kind == "category" else [float(column["levels"].index(level))]
        else:
            out.append(f32(fill if missing else value_of(table, column, text)))
        out += [float(missing)] * column.get("indicator", False)
    return out


def value_of(table, column, text):
    """Returns the value of a number or a date that is not missing."""
    if column["kind"] == "number":
        point, groups = (",", ".") if table.comma else (".", ",")
        value = float(text.replace(groups, "").replace(point, "."))
    else:
        value = table.days(text, column["kind"])
    value = f32(value)
    low, high = column.get("min", -math.inf), column.get("max", math.inf)
    assert column.get("clip") or low <= value <= high
    return f32(min(max(value, low), high))


def present_of(table, rows):
    """Returns, for each column with a common fill, the texts that are not missing."""
    texts = [[row[column["name"]].strip() for row in rows] for column in table.pooled()]
    known = [column["levels"] if column.get("others_missing", False) else texts for column, texts in zip(table.pooled(), texts)]
    return [[text for text in each if text and text not in table.missing and text in of] for of, each in zip(known, texts)]


def sums_of(table, rows):
    """Returns a peer's vectors of `values` and `fills`."""
    present = present_of(table, rows)
    out = b""
    for column, texts in zip(table.pooled(), present):
        if "levels" in column:
            out += b"".join(le(texts.count(level), 64) for level in column["levels"])
        else:
            out += moments([[value_of(table, column, text)] for text in texts], 1, False)
    return b"".join(le(bool(texts), 4) for texts in present), out


def fill(table, fills):
    """Replaces `fill_with` in the columns by the opened fills."""
    words = wide_words(fills)
    for column in table.pooled():
        own = [words.pop(0) for _ in column.get("levels", range(2))]
        if "levels" in column:
            if not 1 <= sum(own) < 2**23:
                raise Refused("fills")
            column["fill"] = column["levels"][own.index(max(own))]
        else:
            mean = f32(opened_moments(b"".join(le(word, 64) for word in own), 1, False)[0][0])
            nearest = math.copysign(math.floor(abs(mean) + 0.5), mean)
            column["fill"] = mean if column["kind"] == "number" else nearest
        del column["fill_with"]


def parents(order):
    return [None if i == 0 else order[(i - 1) // 2] for i in range(len(order))]


def degree(p, views, collusion_threshold):
    return math.ceil((40 + math.log2(p * views)) / math.log2(1 / collusion_threshold))


def keys_digest(session, ballot, keys):
    """Returns the digest of `keys`: [peer, 32 bytes, commitment or None] for each member."""
    each = [le(peer, 2) + key + (commitment or b"") for peer, key, commitment in sorted(keys)]
    return tagged("keys", session.id, ballot_bytes(ballot), *each)


def draw_of(digest, parts):
    return tagged("draw", digest, *(le(peer, 2) + part for peer, part in sorted(parts)))


def partners(session, members, draw, me):
    p = len(members)
    if p <= 64:
        return [peer for peer in members if peer != me]
    ring = [peer for _, peer in sorted((tagged("graph", draw, le(i, 2)), i) for i in members)]
    needed = degree(p, session.timing["max_views"] * len(session.plan), session.collusion_threshold)
    place, half = ring.index(me), min(-(-needed // 2), (p - 1) // 2)
    return sorted({ring[(place + step) % p] for step in range(-half, half + 1)} - {me})


def check_sessions():
    file = vectors("session")
    for case in file["good"]:
        session = Session(case["toml"])
        for name in ("committee", "quorum", "min_peers", "fields"):
            check(f"session {name}", getattr(session, name) == case[name])
        check("session id", session.id.hex() == case["id"])
        check("roster", [public.hex() for public in session.roster] == case["roster"])
        trains = session.task in ("flynn", "tune")
        sizes = [session.m, session.s, session.rho] if trains else None
        check("dimension", session.dimension == case["dimension"] and sizes == case["sizes"])
        # The plan of a custom task is defined by another program.
        plan = None if session.task == "custom" else [list(aggregate) for aggregate in session.plan]
        check("plan", plan == case["plan"])
    for case in file["bad"]:
        check_refused(case["what"], case["class"], parse_session, case["toml"].encode())
    case = file["table"]
    session = Session(case["toml"])
    check("table", session.table.encoded().hex() == case["encoding"] and session.table.names() == case["names"])
    known = {column["name"] for column in session.table.columns} | {session.table.label}
    parsed = lambda delimiter: list(csv.reader(io.StringIO(case["csv"]), delimiter=delimiter))
    header, *rows = max(map(parsed, "|\t;,"), key=lambda rows: len(known & set(rows[0])))
    cells = [{"id": "", **dict(zip(header, row))} for row in rows]
    check("rows of a table", [row_of(session.table, row) for row in cells] == case["rows"])
    fills = file["fills"]
    sharing = Session(fills["toml"])
    check("plan with fills", [list(aggregate) for aggregate in sharing.plan] == fills["plan"])
    total, rows = bytes(64 * sharing.plan[2][2]), []
    for peer in fills["peers"]:
        header, *lines = csv.reader(io.StringIO(peer["csv"]), delimiter=";")
        own = [{"id": "", **dict(zip(header, line))} for line in lines]
        values, sums = sums_of(sharing.table, own)
        check("values and fills of a peer", (values.hex(), sums.hex()) == (peer["values"], peer["fills"]))
        total = add_words(512, total, sums)
        rows += own
    fill(sharing.table, total)
    check("filled table", sharing.table.encoded().hex() == fills["encoding"])
    check("filled rows", [row_of(sharing.table, row) for row in rows] == fills["rows"])
    check("labels of a table", [session.classes.index(row[session.table.label]) for row in cells] == case["labels"])
    file = vectors("tree")
    for case in file["trees"]:
        session, members = session_of(case["toml"]), case["members"]
        check("ballot", ballot_bytes(Ballot(**case["ballot"])).hex() == case["ballot_bytes"])
        reached = {author: set(members) for author in session.dealers(0, members)}
        tree = members_of(session, Ballot(**case["ballot"]), reached, set(), 0)
        check("tree", list(tree) == case["order"] and list(tree.values()) == case["parents"])
        check("the tree is binary", parents(case["order"]) == case["parents"])
        check("dealers of the coin", session.dealers(0, members) == case["dealers_of_coin"])
        check("dealers", session.dealers(1, members) == case["dealers"])
    for case in file["graphs"]:
        session = session_of(case["toml"])
        ballot, parts = Ballot(**case["ballot"]), [(peer, bytes.fromhex(part)) for peer, part in case["parts"]]
        keys = [(peer, bytes.fromhex(key), c and bytes.fromhex(c)) for peer, key, c in case["keys"]]
        members = sorted(peer for peer, _, _ in keys)
        large = len(members) > 64
        drawing = [peer for peer in members if large and peer in session.committee]
        check("who draws", [peer for peer, _ in parts] == drawing)
        made = {peer: tagged("commitment", session.id, ballot_bytes(ballot), le(peer, 2), part) for peer, part in parts}
        check("commitments", all(c == made.get(peer) for peer, _, c in keys))
        digest = keys_digest(session, ballot, keys)
        draw = draw_of(digest, parts)
        check("digest of the keys", digest.hex() == case["keys_digest"])
        check("draw", draw.hex() == case["draw"])
        check("partners", partners(session, members, draw, case["me"]) == case["partners"])
        others = case["partners"][:3]
        check("partners are mutual", all(case["me"] in partners(session, members, draw, other) for other in others))
    for *numbers, expected in file["degrees"]:
        check(f"degree {numbers}", degree(*numbers) == expected)


def check_members():
    """Checks candidates, left-out peers, members and trees, from marks and promises."""
    file = vectors("members")
    for case in file["cases"]:
        session, ballot = session_of(file["sessions"][str(case["peers"])]), Ballot(**case["ballot"])
        reached = {int(author): bits(bytes.fromhex(bitmap)) for author, bitmap in case["reached"].items()}
        numbers = [[int(number) for number in text.split()] for text in case["marks"]]
        marks = {(Ballot(*ballot), author, suspect, slot) for *ballot, author, suspect, slot in numbers}
        units = known_at(len(session.roster), marks, case["committed"])
        candidates = candidates_of(session, units, reached)
        check(f"candidates: {case['what']}", sorted(candidates) == case["candidates"])
        check(f"barred: {case['what']}", barred(session, units, candidates) == case["barred"])
        left = left_out(session, units, candidates, set(reached))
        check(f"left out: {case['what']}", left == case["left_out"])
        tree = members_of(session, ballot, reached, marks, case["committed"])
        check(f"members: {case['what']}", (tree and sorted(tree)) == case["members"])
        places = tree and [str(peer) if above is None else f"{peer} {above}" for peer, above in tree.items()]
        check(f"tree: {case['what']}", places == case["tree"])


def seed_of(session, pads):
    """Returns the seed that a coin gives, from the sound pads {dealer: pad}."""
    return tagged("seed", session.id, *(le(dealer, 2) + pad for dealer, pad in pads.items()))
