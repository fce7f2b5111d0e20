from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyswarm._classifier import FlyNNClassifier
from flyswarm._flyswarm import LearntRows

@dataclass(frozen=True, eq=False)
class Labels:
    transduction_: NDArray[np.str_]
    confidence_: NDArray[np.float64]
    inferred_: NDArray[np.bool_]
    disputed_: NDArray[np.bool_]
    classes_: NDArray[np.str_]

def labels(file: bytes, classes: Sequence[str]) -> Labels: ...
def best(file: bytes) -> FlyNNClassifier: ...
def result(
    task: str,
    file: bytes,
    classes: Sequence[str],
    receipt: dict[str, Any],
    learnt: LearntRows | None = None,
) -> tuple[Any, dict[str, Any]]: ...
