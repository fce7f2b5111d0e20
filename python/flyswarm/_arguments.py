"""Checks arguments, and names them in errors as Python does."""

import contextlib
import difflib
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

# Largest number that the extension takes.
MOST = 2**63 - 1


def whole(name: str, value: Any, least: int = 1, most: int = MOST, strict: bool = False) -> int:
    """Returns a whole number. Raises TypeError or ValueError, with its name, if it is not one of the range.

    If it is small but not negative, the extension names the limits, unless the check is `strict`.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}, expected an int")
    if value < (least if strict else 0) or value > most:
        expected = f"{least} or more" if most == MOST else f"{least} to {most}"
        raise ValueError(f"{name} is {value}, expected {expected}")
    return int(value)


def multiple(name: str, value: Any, unit: str, base: int, least: int) -> int:
    """Returns a whole number from a number, or from a multiple of `base` such as "256d", as sessions do."""
    if not isinstance(value, str):
        return whole(name, value)
    digits = value.removesuffix(unit)
    if digits == value or not re.fullmatch(r"(?=.*[1-9])(\d+\.?\d*|\.\d+)", digits):
        raise ValueError(f'{name} is {value!r}, expected an int or a multiple such as "0.5{unit}"')
    return max(int(float(digits) * base), least)


def names(name: str, values: Any) -> list[str]:
    """Returns the texts of names from a list, array, index, series or other iterable of them.

    A set has no order: its names are sorted, as those of `numpy.unique`.
    """
    if isinstance(values, bytes | Mapping) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} is {values!r}, expected a list of names")
    found = sorted(values) if isinstance(values, set | frozenset) else list(values)
    if any(each is None or str(each) in ("nan", "<NA>", "") for each in found):
        raise ValueError(f"{name} has a missing name")
    return [str(each) for each in found]


def plain(value: Any) -> Any:
    """Returns a value that a session file can have, of Python's own types."""
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


def toml(value: Any) -> str:
    """Returns a value in the syntax of a session file."""
    value = plain(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        hidden = lambda found: f"\\u{ord(found[0]):04x}"
        return '"' + re.sub("[\x00-\x1f\x7f]", hidden, escaped) + '"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(key)} = {toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return repr(value)


def suggests(*others: Callable[..., Any]) -> Callable[[Function], Function]:
    """Makes the TypeError of an unknown keyword name the nearest right one.

    A function with `**given` takes the keywords of `others`.
    """

    def decorated(function: Function) -> Function:
        functions: tuple[Callable[..., Any], ...] = (function, *others)
        known = [name for one in functions for name in inspect.signature(one).parameters]
        known = [name for name in known if name not in ("self", "cls", "given")]

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

        return checked  # type: ignore[return-value]

    return decorated


def in_words_of_python(text: str) -> str:
    """Replaces options of the program by the arguments of this package: `--few-rows` by `few_rows`."""
    name = lambda found: "from_" if found[1] == "from" else found[1].replace("-", "_")
    # A map file is not the only place of this setting here.
    text = text.replace("hold_out in the map file: with", "hold_out: with")
    # A text in quotation marks is the user's.
    return re.sub(r"(?<![\w\"-])--([a-z][a-z-]*[a-z])(?![\w-])", name, text)


@contextlib.contextmanager
def arguments_named() -> Iterator[None]:
    """Raises a ValueError or OSError of the block again, with arguments instead of options in its text."""
    try:
        yield
    except (ValueError, OSError) as error:
        text = in_words_of_python(str(error))
        if text == str(error):
            raise
        raise (ValueError if isinstance(error, ValueError) else OSError)(text) from None
