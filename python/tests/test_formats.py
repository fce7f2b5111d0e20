"""Tests that a random table gives the same rows as a frame of each kind and as a file of each format."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import Swarm


def table(seed):
    """Returns columns of numbers, booleans, texts and dates with missing values, and a label."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(60, 120))
    gaps = lambda values: [None if rng.random() < 0.1 else value for value in values]
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(int(day)) for day in rng.integers(0, 700, count)]
    return {
        "age": rng.integers(20, 90, count).tolist(),
        "weight": gaps(rng.normal(70, 12, count).round(1).tolist()),
        "visits": gaps(rng.integers(0, 40, count).tolist()),
        "smoker": gaps(rng.integers(0, 2, count).astype(bool).tolist()),
        "ward": gaps(rng.choice(["north", "south, left", 'the "old" one'], count).tolist()),
        "admitted": gaps(days),
        "kind": rng.choice(["ill", "well"], count).tolist(),
    }


@pytest.mark.parametrize("seed", range(8))
def test_data_frames_give_the_rows_of_csv_and_parquet(tmp_path, seed):
    columns = table(seed)
    frame = pl.DataFrame(columns)
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_parquet(tmp_path / "rows.parquet")
    session = Swarm(tmp_path, from_=tmp_path / "rows.csv", label="kind", no_evaluate=True).session
    rest = {name: values for name, values in columns.items() if name != "kind"}
    dated = pd.DataFrame(rest)
    dated["admitted"] = pd.to_datetime(dated["admitted"])
    given = {
        "csv": (tmp_path / "rows.csv", None),
        "parquet": (tmp_path / "rows.parquet", None),
        "polars": (pl.DataFrame(rest), columns["kind"]),
        "pandas": (pd.DataFrame(rest), columns["kind"]),
        "pandas with times": (dated, columns["kind"]),
        "pandas with its own missing values": (pd.DataFrame(rest).convert_dtypes(), columns["kind"]),
    }
    rows = {name: session._rows(X, y, None) for name, (X, y) in given.items()}
    assert {each.count for each in rows.values()} == {len(columns["kind"])}
    digests = {name: each.digest() for name, each in rows.items()}
    assert digests == dict.fromkeys(digests, digests["csv"])
