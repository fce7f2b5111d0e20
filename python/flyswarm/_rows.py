"""Rows on their way to the extension: float32 in C order, a chunk at a time."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")

# Rows of a chunk at most: between two chunks Ctrl-C is seen.
ROWS = 16384
# Numbers of a chunk at most: 64 MiB as float32.
NUMBERS = 1 << 24
# Magnitudes stay below it.
LIMIT = 2.0**80


def chunks(X: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yields (first row, rows) of the array `X`. Rows of float32 in C order are not copied."""
    step = max(1, min(ROWS, NUMBERS // max(1, X.shape[1])))
    for first in range(0, X.shape[0], step):
        part = X[first : first + step]
        # What does not fit a float32 is refused below.
        with np.errstate(over="ignore"):
            yield first, np.ascontiguousarray(part, dtype=np.float32)


def each(X: NDArray[Any], call: Callable[[NDArray[np.float32], int], Result]) -> list[Result]:
    """The results of `call(rows, first row)` for each chunk of the array `X`.

    Raises ValueError, with the row in `X`, where a number is not below 2^80.
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
    """A public seed: 32 bytes, or an int from 0 to 2^256 - 1."""
    return seed if isinstance(seed, bytes) else int(seed).to_bytes(32, "little")
