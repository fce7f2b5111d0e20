"""Converts labels to the names of a session's classes, and back to the type of the given labels."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def name_of(label: Any, names: Collection[str]) -> str:
    """Returns the name of a label, which is its text. The float 3.0 also matches the class "3" of `names`."""
    text = str(label)
    if text not in names and isinstance(label, float | np.floating) and float(label).is_integer():
        whole = str(int(label))
        return whole if whole in names else text
    return text


def is_unknown(label: Any, names: Collection[str]) -> bool:
    """True if the label means that the class is not known: None, NaN, "", or -1 unless it is a class."""
    if label is None or not isinstance(label, str) and str(label) in ("nan", "<NA>", "NaT"):
        return True
    return str(label) == "" or str(label) in ("-1", "-1.0") and name_of(label, names) not in names


def named(y: ArrayLike, names: Sequence[str]) -> list[str]:
    """Returns the name of each label, "" for an unknown label."""
    known, array = set(names), np.asarray(y, dtype=object)
    if array.ndim != 1:
        raise ValueError(f"y has {array.ndim} dimensions, expected 1: a label for each row")
    labels = array.tolist()
    return ["" if is_unknown(label, known) else name_of(label, known) for label in labels]


def codes_of(y: ArrayLike, names: Sequence[str], unknown: int) -> NDArray[np.uint16]:
    """Returns the class index of each label. A label that is not a class gets the index `unknown`."""
    codes = {name: code for code, name in enumerate(names)}
    return np.array([codes.get(name, unknown) for name in named(y, names)], dtype=np.uint16)


def typed(names: Sequence[str], y: Any) -> NDArray[Any]:
    """Returns the classes `names`, in the same order, as labels of the type of `y`.

    If this peer has no rows of a class, the label of the class is made from its name. If a name does not fit
    the type of `y`, the result is an array of objects, and the label of this class is a text.
    """
    if y is None:
        return np.asarray(names)
    known, array = set(names), np.asarray(y)
    labels = [label for label in np.asarray(y, dtype=object).tolist() if not is_unknown(label, known)]
    if array.dtype == object:
        found = np.asarray(labels)
        texts = found.dtype.kind in "US" and not isinstance(y, list | tuple)
        array = np.asarray(labels, dtype=object) if texts else found
    if len(labels) == 0 or array.dtype.kind in "US":
        return np.asarray(names)
    seen = {name_of(label, known): label for label in labels}
    values = [seen.get(name, converted(name, array.dtype)) for name in names]
    fits = array.dtype.kind == "O" or all(type(value) is not str for value in values)
    out = np.empty(len(values), dtype=array.dtype if fits else object)
    out[:] = values
    return out


def converted(name: str, dtype: np.dtype[Any]) -> Any:
    """Returns the label of the type `dtype` with this name, or if there is no such label the name itself."""
    try:
        if dtype.kind == "b":
            return {"True": True, "False": False}[name]
        if dtype.kind in "iu" and np.iinfo(dtype).min <= int(name) <= np.iinfo(dtype).max:
            label: Any = int(name)
        elif dtype.kind == "f":
            label = float(name)
        else:
            return name
    except (KeyError, ValueError):
        return name
    return label if name_of(label, {name}) == name else name


def with_gaps(found: Sequence[str], names: Sequence[str], classes: NDArray[Any]) -> NDArray[Any]:
    """Returns labels of the type of `classes` from names in `names`. The name "" means no class.

    The label for no class is "" for texts, -1 for integers, NaN for floats, and None for other types.
    """
    kind = classes.dtype.kind
    missing: Any = {"U": "", "O": "", "f": np.nan, "i": -1, "u": -1}.get(kind)
    if kind in "iu" and -1 in classes.tolist():
        missing = None
    if "" not in found:
        dtype = classes.dtype
    elif missing is None:
        dtype = np.dtype(object)
    else:
        dtype = np.dtype(np.int64) if kind == "u" else classes.dtype
    values = dict(zip(names, classes.tolist(), strict=True))
    out = np.empty(len(found), dtype=dtype)
    out[:] = [values.get(name, missing) for name in found]
    return out
