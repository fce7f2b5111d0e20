from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyswarm._saved import Saved
from flyswarm._session import Session

Rule = Literal["average", "keep-own", "first"]

class Declared(Saved, dict[str, Any]):
    def __init__(self, fields: Mapping[str, Any], file: bytes) -> None: ...
    def __or__(self, fields: Mapping[str, Any]) -> Declared: ...  # type: ignore[override]

def declare(model: Any, rules: Mapping[str, Rule] | None = None) -> Declared: ...
def weights_of(model: Any) -> Mapping[str, Any]: ...
def dtypes_of(model: Any) -> dict[str, str]: ...
def tensors_of(session: Session) -> list[dict[str, Any]]: ...

class Weights(Saved):
    weights_: dict[str, NDArray[Any]]
    classes_: list[str]
    digest: str
    def __init__(self, file: bytes) -> None: ...
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Weights: ...
    def scale(self, X: ArrayLike) -> NDArray[np.float32]: ...
