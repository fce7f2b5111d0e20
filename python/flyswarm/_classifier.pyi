from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyswarm._flyswarm import Model

class FlyNNClassifier:
    m: int | str
    s: int | str | None
    rho: int | str
    gamma: float
    readout: str
    scaling: str
    bins: int
    bounds: tuple[ArrayLike, ArrayLike] | None
    densify: bool
    seed: int | bytes | None
    calibrate: bool
    random_state: Any
    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    def __init__(
        self,
        m: int | str = 16384,
        s: int | str | None = None,
        rho: int | str = 256,
        gamma: float = 0.9,
        readout: str = "balanced-log",
        scaling: str = "soft-bins",
        bins: int = 8,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        densify: bool = False,
        seed: int | bytes | None = 0,
        calibrate: bool = True,
        random_state: Any = None,
    ) -> None: ...
    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> Self: ...
    def partial_fit(self, X: Any, y: ArrayLike, classes: ArrayLike | None = None) -> Self: ...
    def predict(self, X: Any) -> NDArray[Any]: ...
    def predict_proba(self, X: Any) -> NDArray[np.float64]: ...
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]: ...
    def decision_function(self, X: Any) -> NDArray[np.float64]: ...
    def novelties(self, X: Any) -> NDArray[np.float64]: ...
    def merge(self, other: FlyNNClassifier) -> Self: ...
    @classmethod
    def from_model(cls, model: Model, classes: ArrayLike | None = None) -> Self: ...
    @property
    def model_(self) -> Model: ...
    def __sklearn_is_fitted__(self) -> bool: ...
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def set_params(self, **params: Any) -> Self: ...
    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...
