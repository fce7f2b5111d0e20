from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

class KNNPerClassifier:
    estimator: Any
    represent: Callable[[NDArray[Any]], ArrayLike] | None
    k: int
    scale: float
    part: float | None
    cv: int
    seed: int | bytes | None
    random_state: Any
    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    estimator_: Any
    part_: float
    def __init__(
        self,
        estimator: Any = None,
        represent: Callable[[NDArray[Any]], ArrayLike] | None = None,
        k: int = 10,
        scale: float = 1.0,
        part: float | None = None,
        cv: int = 5,
        seed: int | bytes | None = 0,
        random_state: Any = None,
    ) -> None: ...
    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> Self: ...
    def predict(self, X: Any) -> NDArray[Any]: ...
    def predict_proba(self, X: Any) -> NDArray[np.float64]: ...
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]: ...
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def set_params(self, **params: Any) -> Self: ...
    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...
