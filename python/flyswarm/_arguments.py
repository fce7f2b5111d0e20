"""Checks arguments, and names them in errors as Python does."""

import contextlib
import difflib
import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

# Largest number that the extension takes.
MOST = 2**63 - 1


def whole(name: str, value: Any, least: int = 1, most: int = MOST, strict: bool = False) -> int:
    """Returns a whole number. Raises TypeError or ValueError if the value is not in the range.

    A number below the range that is not negative passes unless the check is `strict`: the extension refuses
    it and names the limits.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}, expected an int")
    if value < (least if strict else 0) or value > most:
        expected = f"{least} or more" if most == MOST else f"{least} to {most}"
        raise ValueError(f"{name} is {value}, expected {expected}")
    return int(value)


def multiple(name: str, value: Any, unit: str, base: int, least: int) -> int:
    """Returns a whole number from a number, or from a multiple of `base` such as "256d"."""
    if not isinstance(value, str):
        return whole(name, value)
    digits = value.removesuffix(unit)
    if digits == value or not re.fullmatch(r"(?=.*[1-9])(\d+\.?\d*|\.\d+)", digits):
        raise ValueError(f'{name} is {value!r}, expected an int or a multiple such as "0.5{unit}"')
    return max(int(float(digits) * base), least)


def names(name: str, values: Any) -> list[str]:
    """Returns the texts of names from a list, array, index, series or other iterable of them.

    The names of a set are sorted, as by `numpy.unique`, because a set has no order.
    """
    if isinstance(values, bytes | Mapping) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} is {values!r}, expected a list of names")
    found = sorted(values) if isinstance(values, set | frozenset) else list(values)
    if any(each is None or str(each) in ("nan", "<NA>", "") for each in found):
        raise ValueError(f"{name} has a missing name")
    return [str(each) for each in found]


def texts(name: str, values: Any) -> list[str]:
    """Returns the texts of an iterable. A single text gives a list of one."""
    return [values] if isinstance(values, str) else names(name, values)


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """Returns rows and their labels. Raises TypeError for a value that is not a pair."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} is of the type {type(value).__name__}, expected a pair (X, y)")
    return value[0], value[1]


def flag(name: str, value: Any) -> bool:
    """Returns a bool. Raises TypeError for a value of another type."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}, expected a bool")
    return bool(value)


def function(name: str, value: Any) -> Any:
    """Returns a function or None. Raises TypeError for a value of another type."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} is {value!r}, expected a function")
    return value


def text(name: str, value: Any) -> str:
    """Returns a text. Raises TypeError for a value of another type."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}, expected a str")
    return str(value)


def number(name: str, value: Any) -> float:
    """Returns a number, also from its text. Raises TypeError or ValueError, which names the argument."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number | str):
        raise TypeError(f"{name} is {value!r}, expected a number")
    try:
        found = float(value)
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{name} is {value!r}, expected a number")
    return found


def address(name: str, value: Any) -> tuple[IPv4Address | IPv6Address, int]:
    """Returns address and port from "ADDRESS:PORT", or from a port; the address is then 127.0.0.1."""
    if not isinstance(value, str):
        return IPv4Address("127.0.0.1"), whole(name, value, 0, 65535)
    host, colon, port = value.rpartition(":")
    try:
        # An IPv6 address is in brackets.
        brackets = host.startswith("[") and host.endswith("]")
        ip = ip_address(host.strip("[]") if colon else "127.0.0.1")
        if port.isascii() and port.isdecimal() and int(port) < 65536 and (ip.version == 6) == brackets:
            return ip, int(port)
    except ValueError:
        pass
    raise ValueError(f"{name} is {value!r}, expected a port or ADDRESS:PORT")


def label_of(label: Any) -> int | str | None:
    """Returns a label column: its name, its number from 1, "last", "none", or None."""
    return label if label is None or isinstance(label, str) else whole("label", label, 1, strict=True)


def path_text(name: str, value: Any, needed: bool = False) -> str | None:
    """Returns a path as a text. None stays None, unless a path is `needed`."""
    if value is None and not needed:
        return None
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is {value!r}, expected a path")
    return str(value)


def plain(value: Any) -> Any:
    """Converts a value to a type of Python that a session file can have."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return whole("a number of the session file", value, -MOST - 1, strict=True)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a number of the session file is {value}, expected a finite one")
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if hasattr(value, "__iter__") and not isinstance(value, bytes):
        return [plain(each) for each in value]
    raise TypeError(f"{value!r} is of the type {type(value).__name__}, which a session file does not have")


def suggests(
    *others: Callable[..., Any], without: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Decorates a function: its TypeError about an unknown keyword names the most similar known keyword.

    A function with `**given` also takes the keywords of `others`, except those in `without`.
    """

    def decorated(function: Function) -> Function:
        signature = merged(function, others, without)
        known = [name for name in signature.parameters if name not in ("self", "cls")]

        def check(given: Mapping[str, Any]) -> None:
            for name in given:
                if name not in known:
                    near = difflib.get_close_matches(name, known, 1, 0.5)
                    hint = f". Did you mean {near[0]!r}?" if near else ""
                    problem = f"{function.__qualname__}() got an unexpected keyword argument {name!r}{hint}"
                    raise TypeError(problem)

        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            check(given)
            return function(*args, **given)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorated


def merged(
    function: Callable[..., Any], others: tuple[Callable[..., Any], ...], without: tuple[str, ...]
) -> inspect.Signature:
    """Returns the signature of a function, with the keywords of `others` for its `**given`."""
    first = inspect.signature(function)
    own = [each for each in first.parameters.values() if each.kind is not each.VAR_KEYWORD]
    known = {*without, *(each.name for each in own)}
    taken = [each for other in others for each in inspect.signature(other).parameters.values()]
    taken = [each for each in taken if each.kind is each.KEYWORD_ONLY and each.name not in known]
    return first.replace(parameters=[*own, *taken])


def in_words_of_python(text: str) -> str:
    """Replaces options of the program by arguments of this package in a text: `--few-rows` by `few_rows`."""
    name = lambda found: "from_" if found[1] == "from" else found[1].replace("-", "_")
    # In this package an argument can have this setting too, not only a map file.
    text = text.replace("hold_out in the map file: with", "hold_out: with")
    # A text in quotation marks is from the user and stays unchanged.
    return re.sub(r"(?<![\w\"-])--([a-z][a-z-]*[a-z])(?![\w-])", name, text)


@contextlib.contextmanager
def arguments_named() -> Iterator[None]:
    """Raises a ValueError or OSError of the block again. Its text then names arguments instead of options."""
    try:
        yield
    except (ValueError, OSError) as error:
        text = in_words_of_python(str(error))
        if text == str(error):
            raise
        raise (ValueError if isinstance(error, ValueError) else OSError)(text) from None
