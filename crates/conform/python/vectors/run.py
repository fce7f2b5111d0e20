"""Runs all checks. Prints the failed checks and the number of passed checks."""

from primitives import Refused

from vectors import fedavg, flynn, glm, hamming, records, sessions, sketch, specification, summary, sums, wire, xclp
from vectors.common import RESULTS, check

CHECKS = (
    specification.check_musts,
    specification.check_worked,
    specification.check_trees_shown,
    wire.check_encoding,
    wire.check_identity,
    wire.check_streams,
    wire.check_sharing,
    sessions.check_sessions,
    sessions.check_members,
    records.check_items,
    wire.check_messages,
    wire.check_faults,
    sums.check_sum,
    flynn.check_flynn,
    flynn.check_evaluate,
    flynn.check_tune,
    xclp.check_xclp,
    xclp.check_statements,
    hamming.check_ot,
    hamming.check_phe,
    sketch.check_sketch,
    fedavg.check_fedavg,
    fedavg.check_fedavg_xclp,
    sketch.check_private,
    summary.check_summary,
    glm.check_glm,
)


def main():
    for part in CHECKS:
        try:
            part()
        except Refused as error:
            check(f"{part.__name__}: refused a valid input: {error.args}", False)
    print(f"{RESULTS[True]} passed, {RESULTS[False]} failed")
    return 1 if RESULTS[False] else 0
