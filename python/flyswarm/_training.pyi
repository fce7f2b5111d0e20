from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyswarm._events import Event
from flyswarm._identity import Identity
from flyswarm._joining import Joined, Result
from flyswarm._session import File, Session, TrainingOptions

@dataclass(frozen=True)
class Round:
    number: int
    rounds: int
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    rate: float
    epochs: int
    steps: int
    batch: int
    momentum: float = ...
    weight_decay: float = ...
    proximal: float = ...
    def batches(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]: ...

class Trainer(Protocol):
    def get_weights(self) -> Mapping[str, Any]: ...
    def set_weights(self, weights: dict[str, NDArray[np.float32]], /) -> object: ...
    def fit(self, round: Round, /) -> tuple[float, float] | None: ...

class TorchModule(Protocol):
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state_dict: Any, /) -> Any: ...
    def parameters(self) -> Any: ...

class FedAvg(Generic[Result]):
    session: Session[Result]
    trainer: Any
    @overload
    def __init__(self, session: Session[Result], trainer: Trainer) -> None: ...
    @overload
    def __init__(
        self,
        session: Session[Result],
        trainer: TorchModule,
        *,
        loss: Callable[[Any, Any], Any],
        optimizer: Callable[[Any], Any],
    ) -> None: ...
    def join(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        key: Identity | File,
        on_event: Callable[[Event], object] | None = None,
        progress: bool = False,
        **given: Unpack[TrainingOptions],
    ) -> Joined[Result]: ...
    async def join_async(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        key: Identity | File,
        on_event: Callable[[Event], object] | None = None,
        progress: bool = False,
        **given: Unpack[TrainingOptions],
    ) -> Joined[Result]: ...

def calls(
    trainer: Trainer,
) -> Callable[
    [str, NDArray[np.float32], NDArray[np.int64], bytes], tuple[bytes, tuple[float, float] | None]
]: ...
