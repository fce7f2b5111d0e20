"""Passes rows in memory to the program as files."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@contextlib.contextmanager
def temporary(write: Callable[[Path], object], name: str) -> Iterator[Path]:
    """Yields the path of a temporary file that `write` has written.

    On Linux the file is in memory and disappears when this process ends, also after a crash. Elsewhere it is
    in a folder that only this user can read.
    """
    if hasattr(os, "memfd_create") and os.path.exists("/proc/self/fd"):
        file = os.memfd_create(name)
        try:
            path = Path(f"/proc/self/fd/{file}")
            write(path)
            yield path
        finally:
            os.close(file)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            write(path)
            yield path


def prepared(X: Any, read: Callable[[Path], NDArray[np.float32]]) -> NDArray[np.float32]:
    """Returns the features of the frame `X`. `read` converts the file of a table to rows, as a model does."""
    with temporary(lambda path: write_table(path, X, None), "X.csv") as path:
        try:
            return read(path)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "X")) from None


def write_arrays(
    path: Path, X: Any, labels: Sequence[str] | None, columns: Sequence[str] | None
) -> None:
    """Writes an NPZ archive with `X` and, if given, `y` and `columns`."""
    if hasattr(X, "toarray"):
        raise ValueError("X is sparse, expected a dense array: X.toarray() makes one")
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
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def write_table(path: Path, X: Any, labels: Sequence[str] | None, label: str = "label") -> None:
    """Writes a frame as a CSV file, with `labels` in the column `label`."""
    frame = X.copy() if hasattr(X, "copy") else X.clone()
    if labels is not None:
        if len(labels) != len(X):
            raise ValueError(f"{len(labels)} labels for {len(X)} rows")
        if hasattr(frame, "with_columns"):
            frame = frame.with_columns(type(frame)({label: labels})[label])
        else:
            frame[label] = labels
    if hasattr(frame, "write_csv"):
        frame.write_csv(path)
    else:
        frame.to_csv(path, index=False)
