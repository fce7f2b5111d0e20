from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

class LabelPropagation:
    bits: int
    neighbours: int
    alpha: float
    steps: int | None
    power: int
    balance: bool
    scaling: str
    bins: int
    seed: int | bytes | None
    random_state: Any
    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    transduction_: NDArray[Any]
    label_distributions_: NDArray[np.float64]
    def __init__(
        self,
        bits: int = 4096,
        neighbours: int = 10,
        alpha: float = 0.99,
        steps: int | None = None,
        power: int = 1,
        balance: bool = False,
        scaling: str = "center",
        bins: int = 8,
        seed: int | bytes | None = 0,
        random_state: Any = None,
    ) -> None: ...
    def fit(self, X: Any, y: ArrayLike) -> Self: ...
    def predict(self, X: Any) -> NDArray[Any]: ...
    def predict_proba(self, X: Any) -> NDArray[np.float64]: ...
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]: ...
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def set_params(self, **params: Any) -> Self: ...
    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...
