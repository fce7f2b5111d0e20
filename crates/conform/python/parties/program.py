"""The program of the three parties, stage by stage (spec, section 15e)."""

from __future__ import annotations

from primitives.xclp import Plan

from .graph import added_parts, compaction, compared, dense, distances, integers, keys, nearest, weights
from .parts import Parties, Program
from .shares import Input
from .solve import degrees, output, propagation


def program(parties: Parties, plan: Plan, owners: list[Input], commitments: list[bytes],
            of_distances: bool = False) -> Program:
    """Runs all stages. Returns the shares of the output, and those of some values of the integer reference."""
    part = compared(parties, owners, commitments)
    yield
    codes, labels = yield from integers(part, plan, owners, of_distances)
    if of_distances:
        entries = added_parts(parties, plan, owners)
    else:
        entries = yield from distances(parties, plan, codes)
    planes = yield from keys(parties, plan, entries)
    chosen = yield from nearest(parties, plan, planes)
    found = yield from compaction(parties, plan, planes, chosen)
    of_places = yield from weights(parties, plan, found)
    graph = yield from dense(parties, plan, found, of_places)
    inverted = yield from degrees(parties, plan, graph, labels)
    scores = yield from propagation(parties, plan, graph, labels, inverted)
    rows = yield from output(parties, plan, scores)
    values = dict(zip(("degrees", "inverses", "roots"), inverted), graph=graph, scores=scores)
    return rows, values
