"""Federated learning with no central aggregator.

`FlyNNClassifier`, `LabelPropagation` and `KNNPerClassifier` are estimators with the interface of
scikit-learn. `Session` makes a session of several peers and joins it. The result is an estimator that is
fitted to the rows of all peers.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyswarm._api import *
    from flyswarm._api import __all__ as __all__

__version__ = version("flyswarm")


def __getattr__(name: str) -> Any:
    # NumPy and scikit-learn are imported only when a public name is used, so that the program `flyswarm`
    # starts fast and without them.
    if name != "__all__" and name.startswith("_"):
        raise AttributeError(f"module 'flyswarm' has no attribute {name!r}")
    api = import_module("flyswarm._api")
    globals().update({"__all__": api.__all__} | {each: getattr(api, each) for each in api.__all__})
    if name not in globals():
        raise AttributeError(f"module 'flyswarm' has no attribute {name!r}", name=name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *__getattr__("__all__")])
