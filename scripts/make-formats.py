#!/usr/bin/env python3
"""Writes the same four rows in every format to crates/data/tests/formats, with common libraries.

    python3 scripts/make-formats.py [FOLDER]

Needs numpy, pandas and pyarrow.
"""
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "crates" / "data" / "tests" / "formats")
folder.mkdir(exist_ok=True)

X = np.array([[1, -2.5, 40], [3, 4, 0], [0.1, 7e3, -1], [5, 0, 2]])
names = np.array(["a", "b", "c"])
kind = np.array(["cat", "dog", "cat", "dog"])
y = np.array([0, 1, 0, 1])

table = pd.DataFrame(X, columns=names)
table["c"] = table["c"].astype("int64")
table["kind"] = kind
table.to_csv(folder / "rows.csv", index=False)

np.save(folder / "rows.npy", np.column_stack([X, y]))
np.save(folder / "rows-fortran.npy", np.asfortranarray(np.column_stack([X, y]).astype(">f4")))
np.save(folder / "X.npy", X.astype("float32").reshape(4, 3, 1))
np.save(folder / "y.npy", kind)
np.save(folder / "object.npy", np.array([[1, "cat"]], dtype=object))
np.savez(folder / "rows.npz", X=X, y=y.astype("int16"))
np.savez_compressed(folder / "named.npz", X=X[:, ::-1].astype("float32"), target=kind, columns=names[::-1])

table.to_parquet(folder / "rows.parquet", index=False)
for codec in ["zstd", "gzip", "none"]:
    table.to_parquet(folder / f"rows-{codec}.parquet", index=False, compression=None if codec == "none" else codec, row_group_size=3)
table.assign(colour=["red", "blue", "red", "red"]).to_parquet(folder / "colour.parquet", index=False)
table.set_axis([7, 1, 9, 2], axis=0).to_parquet(folder / "index.parquet")
table.assign(b=[1, None, 2, 3]).to_parquet(folder / "null.parquet", index=False)

# A raw table: text, a dictionary, dates, timestamps, booleans, missing values, and a list, which cannot be read.
patients = pd.DataFrame(
    {
        "age": [61, None, 48.5, 70],
        "sex": ["f", None, "m", "f"],
        "stage": pd.Categorical(["II", "I", "III", "I"]),
        "seen": [date(1970, 1, 11), date(2000, 2, 29), None, date(1969, 12, 31)],
        "left": pd.to_datetime(["1970-01-12T23:59:59", "2000-03-01", "1999-12-31T10:00", "1969-12-31T00:00:01"], format="ISO8601"),
        "smoker": pd.array([True, None, False, True], dtype="boolean"),
        "visits": pd.array([3, 1, None, 2], dtype="Int16"),
        "notes": [["a"], [], ["b", "c"], []],
        "kind": ["sick", "well", "sick", "well"],
    }
)
patients.to_parquet(folder / "patients.parquet", index=False, row_group_size=3)
patients.drop(columns="notes").to_csv(folder / "patients.csv", index=False)
