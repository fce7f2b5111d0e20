"""Three hospitals with tables of patients: text, dates and missing values, columns in another order at each.

    python python/examples/patients.py

The session describes the columns as in North's table. Each hospital then knows a classifier of the patients
of all three, which takes such a table as it is.
"""

import tempfile
from pathlib import Path

import pandas as pd
from flyswarm import Identity, Session
from processes import together

TABLES = Path(__file__).parents[2] / "examples" / "patients"


def table(name):
    """Patients of one hospital; East writes "unknown" where a value is missing."""
    return pd.read_csv(TABLES / f"{name}.csv", na_values="unknown")


def peer(name, key, meeting, session):
    """Takes part with three rows in four, the rest are for testing; says how new patients are classified."""
    rows = table(name)
    held = rows.index % 4 == 0
    learnt = rows[~held]
    estimator, receipt = Session(session).join(
        learnt.drop(columns="diagnosis"), learnt["diagnosis"], **meeting.of(key)
    )
    right = estimator.predict(rows[held]) == rows[held]["diagnosis"]
    return not receipt["own_rows"]["left_out"], int(right.sum()), len(right), estimator.predict(table("new")).tolist()


def main():
    with tempfile.TemporaryDirectory() as folder:
        keys = {name: Identity.new(Path(folder) / name / "key") for name in ("north", "south", "east")}
        north = TABLES / "north.csv"
        session = Session.new("wards", keys, from_=north, label="diagnosis", no_evaluate=True)
        features, columns = session.show()["data"]["columns"], table("north").columns
        print(f"{len(features)} features of {len(columns) - 1} columns")
        answers = together(peer, keys, session.text)
    for name, (complete, right, held, _) in answers.items():
        print(f"{name}: rows in all sums {complete}, {right} of {held} of its other patients are classified rightly")
    new = [answer[-1] for answer in answers.values()]
    assert new[0] == new[1] == new[2], "all have the same classifier"
    print("new patients:", ", ".join(new[0]))


if __name__ == "__main__":
    main()
