"""Files in the safetensors format: named arrays of float32 and other types."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# NumPy has no type for BF16, so its arrays are float32.
TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def read(data: bytes) -> dict[str, NDArray[Any]]:
    """Returns the tensors of a file by name. Each is a writable copy."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, place in header.items():
        first, last = (8 + size + offset for offset in place["data_offsets"])
        array = np.frombuffer(data[first:last], TYPES[place["dtype"]]).reshape(place["shape"])
        if place["dtype"] == "BF16":
            array = (array.astype("<u4") << 16).view("<f4")
        tensors[name] = array.copy()
    return tensors


def typed(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Returns an array as a type of the format. Floats are rounded to the nearest value, halves to even."""
    if dtype != "BF16":
        return np.ascontiguousarray(array, TYPES[dtype]).reshape(np.shape(array))
    bits = np.ascontiguousarray(array, "<f4").view("<u4").reshape(np.shape(array))
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    # Rounding must not turn a NaN into an infinity.
    return np.where(np.isnan(np.asarray(array, "f4")), 0x7FC0, rounded).astype("<u2")


def write(tensors: Mapping[str, Any], dtypes: Mapping[str, str] | None = None) -> bytes:
    """Returns a file of these tensors. Raises ValueError if a tensor is not an array of numbers.

    A tensor without a type in `dtypes` becomes float32.
    """
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, values in tensors.items():
        dtype = (dtypes or {}).get(name, "F32")
        try:
            # A number that does not fit becomes infinite, and the node refuses it.
            with np.errstate(over="ignore"):
                array = typed(np.asarray(values), dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the trainer's {name} is not an array of numbers: {error}") from None
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        parts.append(array.tobytes())
        at += array.nbytes
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
