"""Passes rows to the extension in chunks, as float32 in C order."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")

# Maximum number of rows of a chunk. Ctrl-C is handled between two chunks.
ROWS = 16384
# Maximum number of values of a chunk: 64 MiB as float32.
NUMBERS = 1 << 24
# Limit of magnitudes; all numbers must be below it.
LIMIT = 2.0**80


def chunks(X: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yields (first row, rows) for each chunk of the array `X`. A float32 array in C order is not copied."""
    step = max(1, min(ROWS, NUMBERS // max(1, X.shape[1])))
    for first in range(0, X.shape[0], step):
        part = X[first : first + step]
        # The code below refuses a number that does not fit a float32.
        with np.errstate(over="ignore"):
            yield first, np.ascontiguousarray(part, dtype=np.float32)


def each(X: NDArray[Any], call: Callable[[NDArray[np.float32], int], Result]) -> list[Result]:
    """Returns the results of `call(rows, first row)` for each chunk of the array `X`.

    Raises ValueError, which names the row of `X`, if a magnitude is not below 2^80.
    """
    out = []
    for first, rows in chunks(X):
        try:
            out.append(call(rows, first))
        except ValueError:
            # The extension counts rows from the start of the chunk.
            bad = np.argwhere(~(np.abs(X[first : first + len(rows)]) < LIMIT))
            if len(bad) == 0:
                raise
            row, feature = bad[0] + (first, 0)
            number = X[row, feature]
            problem = f"row {row}, feature {feature} is {number}, expected a number below 2^80"
            raise ValueError(problem) from None
    return out


def seed_bytes(seed: int | bytes) -> bytes:
    """Returns the 32 bytes of a public seed, which is 32 bytes or an int from 0 to 2^256 - 1."""
    return seed if isinstance(seed, bytes) else int(seed).to_bytes(32, "little")


def grouped(groups: Any, rows: int) -> tuple[list[str], NDArray[np.uint32]] | None:
    """Returns the names of the groups and the group index of each row, or None if there are no groups.

    Raises ValueError if the number of groups differs from `rows`, or a row has no group.
    """
    if groups is None:
        return None
    column = np.asarray(groups, dtype=object)
    if column.shape != (rows,):
        raise ValueError(f"groups has the shape {column.shape}, expected one group for each of {rows} rows")
    texts = []
    for row, group in enumerate(column.tolist()):
        if group is None or group != group or str(group) in ("", "<NA>", "NaT"):
            raise ValueError(f"row {row} has no group: give each row without one a group of its own")
        texts.append(str(group))
    names, codes = np.unique(np.asarray(texts, dtype=str), return_inverse=True)
    return names.tolist(), codes.astype(np.uint32)
