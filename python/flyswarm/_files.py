"""Rows in memory as files that the program reads."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def temporary(files: Mapping[str, Callable[[Path], object]], name: str) -> Iterator[Path]:
    """A folder that only this user can read, with these files written by functions of a path; the path of one."""
    with tempfile.TemporaryDirectory() as folder:
        for file, write in files.items():
            write(Path(folder) / file)
        yield Path(folder) / name


def write_arrays(
    path: Path, X: Any, labels: Sequence[str] | None, columns: Sequence[str] | None
) -> None:
    """An archive of `X`, `y` and `columns`, as far as they are given."""
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions, expected 2: rows and features")
    arrays = {"X": X}
    if labels is not None:
        if len(labels) != len(X):
            raise ValueError(f"{len(labels)} labels for {len(X)} rows")
        arrays["y"] = np.asarray(labels, dtype=np.str_)
    if columns is not None:
        arrays["columns"] = np.asarray(columns, dtype=np.str_)
    np.savez(path, **arrays)


def write_table(path: Path, X: Any, labels: Sequence[str] | None) -> None:
    """A CSV file of a frame, the label last."""
    frame = X.copy() if hasattr(X, "copy") else X.clone()
    if labels is not None:
        if len(labels) != len(X):
            raise ValueError(f"{len(labels)} labels for {len(X)} rows")
        if hasattr(frame, "with_columns"):
            frame = frame.with_columns(type(frame)({"label": labels})["label"])
        else:
            frame["label"] = labels
    if hasattr(frame, "write_csv"):
        frame.write_csv(path)
    else:
        frame.to_csv(path, index=False)
