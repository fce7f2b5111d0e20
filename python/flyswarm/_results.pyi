from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyswarm._classifier import FlyNNClassifier
from flyswarm._flyswarm import LearntRows

@dataclass(frozen=True, eq=False)
class Labels:
    transduction_: NDArray[Any]
    confidence_: NDArray[np.float64]
    inferred_: NDArray[np.bool_]
    disputed_: NDArray[np.bool_]
    classes_: NDArray[Any]

def labels(file: bytes, names: Sequence[str], classes: NDArray[Any]) -> Labels: ...
def best(file: bytes) -> FlyNNClassifier: ...
def result(
    task: str,
    file: bytes,
    names: Sequence[str],
    classes: NDArray[Any],
    receipt: dict[str, Any],
    learnt: LearntRows | None = None,
    own: str | None = None,
) -> tuple[Any, dict[str, Any]]: ...
