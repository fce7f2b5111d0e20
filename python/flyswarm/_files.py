"""Turns rows in memory into the contents of a file: an NPZ archive, or a table as text."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def numbers(X: Any) -> NDArray[Any]:
    """Returns rows as an array of a type that an NPZ archive can have. Raises ValueError for other values."""
    if hasattr(X, "toarray"):
        raise ValueError("X is sparse, expected a dense array: X.toarray() makes one")
    if np.ma.is_masked(X):
        raise ValueError("X has masked values, expected a plain array: X.filled(numpy.nan) makes one")
    try:
        X = np.asarray(X)
        # An array of objects can have numbers only. An archive cannot have half or long floats.
        if X.dtype.kind == "O" or X.dtype.kind == "f" and X.dtype.itemsize not in (4, 8):
            X = X.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"X is not an array of numbers: {problem}") from None
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions, expected 2: rows and features")
    rows: NDArray[Any] = X
    return rows


def archive(X: Any, labels: Sequence[str] | None, columns: Sequence[str] | None) -> bytes:
    """Returns an NPZ archive with `X` and, if given, `y` and `columns`."""
    X = numbers(X)
    arrays = {"X": X}
    if labels is not None:
        check(labels, X)
        arrays["y"] = np.asarray(labels, dtype=np.str_)
    if columns is not None:
        arrays["columns"] = np.asarray(columns, dtype=np.str_)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def table(X: Any, labels: Sequence[str] | None = None, label: str = "label") -> bytes:
    """Returns a frame as CSV with commas, with `labels` in the column `label`."""
    frame = X.copy() if hasattr(X, "copy") else X.clone()
    if labels is not None:
        check(labels, X)
        if hasattr(frame, "with_columns"):
            frame = frame.with_columns(type(frame)({label: labels})[label])
        else:
            frame[label] = labels
    text: str = frame.write_csv() if hasattr(frame, "write_csv") else frame.to_csv(index=False)
    return text.encode()


def check(labels: Sequence[str], X: Any) -> None:
    """Raises ValueError if the numbers of labels and rows differ."""
    if len(labels) != len(X):
        raise ValueError(f"y has {len(labels)} labels, X has {len(X)} rows")
