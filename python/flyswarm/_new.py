"""Makes a session file from the arguments of `Session.new`."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from flyswarm import _flyswarm
from flyswarm._arguments import (
    arguments_named,
    flag,
    in_words_of_python,
    label_of,
    names,
    number,
    path_text,
    plain,
    text,
    whole,
)
from flyswarm._program import LOG

# Arguments that hold the fields of the section with the same name.
SECTIONS = (
    "data", "evaluate", "flynn", "tune", "xclp", "pseudo_labels", "sketch", "fedavg", "custom", "privacy",
    "timing", "limits",
)  # fmt: skip
SWITCHES = (
    "paper_settings", "no_evaluate", "open_distances", "pairwise", "balance", "few_rows", "large_owner",
)  # fmt: skip
NUMBERS = ("rounds", "after", "refresh", "tuning", "candidates", "choose")
FILES = ("initial", "settings")
# Largest number of classes in a range.
MOST = 10_000


def new_session(name: str, peers: Mapping[str, Any], task: str, given: Mapping[str, Any]) -> str:
    """Returns the text of a session file. `given` has the other arguments of `Session.new`."""
    if not isinstance(peers, Mapping):
        raise TypeError(f"peers is {peers!r}, expected a mapping of names to peer ids")
    from_ = given["from_"]
    files = [] if from_ is None else list(from_) if isinstance(from_, list | tuple) else [from_]
    count, columns = features_of(given["features"])
    values = {
        "task": text("task", task),
        "name": text("name", name),
        "peers": [(text("peers", peer), *place(peer, id)) for peer, id in peers.items()],
        "features": count,
        "columns": columns,
        "classes": classes_of(given["classes"]),
        "from": [path_text("from_", path) for path in files],
        "label": label_of(given["label"]),
        "group": None if given["group"] is None else text("group", given["group"]),
        "map": path_text("map", given["map"]),
        "min_rows": None if given["min_rows"] is None else whole("min_rows", given["min_rows"]),
        "options": dict(options_of(given)),
        "fields": fields_of(given),
    }
    made, said, error = _flyswarm.new_session(json.dumps(values, allow_nan=False))
    for line in said:
        LOG.info("%s", in_words_of_python(line))
    if error is not None:
        with arguments_named():
            raise error
    return made


def place(peer: Any, id: Any) -> tuple[str, list[str]]:
    """Returns the id of a peer and the list of its addresses."""
    id, _, address = text(f"peers[{peer!r}]", getattr(id, "peer_id", id)).partition("@")
    return id, [address] if address else []


def features_of(features: Any) -> tuple[int | None, list[str]]:
    """Returns the number of features and no names, or None and the names."""
    if features is None:
        return None, []
    if isinstance(features, str):
        features = int(features) if features.isdecimal() else features.split(",")
    if hasattr(features, "__index__"):
        return whole("features", features), []
    return None, names("features", features)


def classes_of(classes: Any) -> list[str]:
    """Returns the names of the classes."""
    if classes is None:
        return []
    if not isinstance(classes, str):
        return names("classes", classes)
    found = re.fullmatch(r"([+-]?\d+)\.\.([+-]?\d+)", classes)
    if found is None:
        return names("classes", classes.split(","))
    first, last = int(found[1]), int(found[2])
    if not 1 <= last - first < MOST:
        raise ValueError(f"classes is {classes!r}, expected a range of 2 to {MOST} integers")
    return names("classes", range(first, last + 1))


def options_of(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the options of the task that are given, with their values."""
    for name in SWITCHES:
        if flag(name, given[name]):
            yield name.replace("_", "-"), True
    for name in NUMBERS:
        if given[name] is not None:
            yield name, whole(name, given[name])
    for name in FILES:
        if given[name] is not None:
            yield name, path_text(name, given[name])
    for name in ("network", "hash", "hamming"):
        if given[name] is not None:
            yield name, text(name, given[name])
    hidden = given["hidden"]
    if hidden is not None:
        units = hidden if hasattr(hidden, "__iter__") and not isinstance(hidden, str) else [hidden]
        yield "hidden", [whole("hidden", each) for each in units]
    if given["epsilon"] is not None:
        yield "epsilon", number("epsilon", given["epsilon"])


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of the session file, by section."""
    for name in ("set", *SECTIONS):
        if given[name] is not None and not isinstance(given[name], Mapping):
            raise TypeError(f"{name} is {given[name]!r}, expected a mapping of fields")
    fields: dict[str, Any] = {}
    for name, value in plain(given["set"] or {}).items():
        # A name with dots names a field in a section.
        *sections, last = name.split(".")
        place = fields
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    for section in SECTIONS:
        if given[section]:
            fields.setdefault(section, {}).update(plain(given[section]))
    return fields
