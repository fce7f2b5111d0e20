"""Files in the safetensors format: named arrays of float32 and other types."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}


def read(data: bytes) -> dict[str, NDArray[Any]]:
    """Returns the tensors of a file by name. Each is a writable copy."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, place in header.items():
        first, last = (8 + size + offset for offset in place["data_offsets"])
        tensors[name] = np.frombuffer(data[first:last], TYPES[place["dtype"]]).reshape(place["shape"]).copy()
    return tensors


def write(tensors: Mapping[str, Any]) -> bytes:
    """Returns a file of these tensors as float32. Raises ValueError if one is not an array of numbers."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, values in tensors.items():
        try:
            # A number that does not fit a float32 becomes infinite, and the node refuses it.
            with np.errstate(over="ignore"):
                array = np.ascontiguousarray(values, "<f4").reshape(np.shape(values))
        except (TypeError, ValueError) as error:
            raise ValueError(f"the trainer's {name} is not an array of numbers: {error}") from None
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        parts.append(array.tobytes())
        at += array.nbytes
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
