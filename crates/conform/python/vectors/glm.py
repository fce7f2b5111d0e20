"""Checks the vectors of `glm`."""

from primitives.glm import digits
from primitives.session import Session

from vectors.common import check, vectors


def check_glm():
    vector = vectors("glm")
    for case in vector["cases"]:
        glm = Session(case["toml"]).glm
        check("glm words", [glm.words(rows) for rows in vector["rows"]] == case["words"])
        check("glm cells", len(glm.missing) == case["cells"])
        check("glm measures", [measure.cell for measure in glm.measures] == case["measures"])
        rows = [[row for row in map(glm.row, own) if row is not None] for own in vector["rows"]]
        opened = []
        for round_ in case["rounds"]:
            kind, coefficients, shift = glm.follow(opened)
            check("glm round", (kind, coefficients, shift) == ("round", round_["coefficients"], round_["shift"]))
            sums = [glm.sums(coefficients, shift, own) for own in rows]
            check("glm sums", digits(sums[0]) == round_["words"])
            opened.append([sum(numbers) for numbers in zip(*sums)])
            check("glm totals", digits(opened[-1]) == round_["sum"])
        checked = glm.checked([sum(words) for words in zip(*case["words"])])
        check("glm entries of the check", checked == case["checked"] and glm.agrees(checked, opened[0]))
        check("glm other rows", not any(glm.agrees(checked, numbers) for numbers in opened[1:]))
        kind, coefficients, _ = glm.follow(opened)
        check("glm estimates", kind == "done" and glm.estimates(coefficients) == case["estimates"])
