"""Three hospitals train on tables of patients with texts, dates, missing values and different column orders.

    python python/examples/patients.py

The session describes the columns as in North's table. Each hospital gets a classifier that is trained on the
patients of all three hospitals, and that takes such a table without conversion.
"""

import tempfile
from pathlib import Path

import pandas as pd
from flyswarm import Identity, Session
from processes import together

TABLES = Path(__file__).parents[2] / "examples" / "patients"


def table(name):
    """Returns the patients of one hospital. East writes "unknown" for a missing value."""
    return pd.read_csv(TABLES / f"{name}.csv", na_values="unknown")


def peer(name, key, meeting, session):
    """Joins with three of four rows, and tests on the rest. Also returns the classes of new patients."""
    rows = table(name)
    held = rows.index % 4 == 0
    learnt = rows[~held]
    estimator, receipt = Session(session).join(
        learnt.drop(columns="diagnosis"), learnt["diagnosis"], **meeting.of(key)
    )
    right = estimator.predict(rows[held]) == rows[held]["diagnosis"]
    complete = not receipt["own_rows"]["left_out"]
    return complete, int(right.sum()), len(right), estimator.predict(table("new")).tolist()


def main():
    with tempfile.TemporaryDirectory() as folder:
        keys = {name: Identity.new(Path(folder) / name / "key") for name in ("north", "south", "east")}
        north = TABLES / "north.csv"
        session = Session.new("wards", keys, from_=north, label="diagnosis", no_evaluate=True)
        features, columns = session.show()["data"]["columns"], table("north").columns
        print(f"{len(features)} features of {len(columns) - 1} columns")
        answers = together(peer, keys, session.text)
    for name, (complete, right, held, _) in answers.items():
        counts = f"{right} of {held} of its other patients are classified rightly"
        print(f"{name}: rows in all sums {complete}, {counts}")
    new = [answer[-1] for answer in answers.values()]
    assert new[0] == new[1] == new[2], "all have the same classifier"
    print("new patients:", ", ".join(new[0]))


if __name__ == "__main__":
    main()
