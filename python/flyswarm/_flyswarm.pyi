from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

class SessionError(RuntimeError): ...
class LeftError(RuntimeError): ...

@final
class Counter:
    def __new__(
        cls,
        *,
        features: int,
        classes: list[str],
        m: int,
        s: int,
        rho: int,
        seed: bytes,
        densify: bool,
        scaling: str,
        bins: int,
        lo: list[float],
        hi: list[float],
        score: str,
        gamma: float,
    ) -> Counter: ...
    def measure(self, x: NDArray[np.float32]) -> None: ...
    def add(self, x: NDArray[np.float32], y: NDArray[np.uint16]) -> None: ...
    def model(self, columns: list[str]) -> Model: ...

@final
class Model:
    @staticmethod
    def decode(bytes: bytes) -> Model: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Model: ...
    def encode(self) -> bytes: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def predict(self, x: NDArray[np.float32]) -> NDArray[np.uint16]: ...
    def novelties(self, x: NDArray[np.float32]) -> NDArray[np.float64]: ...
    def counter(self) -> Counter: ...
    def merge(self, other: Model) -> Model: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def features(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def counts(self) -> NDArray[np.uint32]: ...
    @property
    def setting(self) -> dict[str, Any]: ...

@final
class Propagation:
    def __new__(
        cls,
        x: NDArray[np.float32],
        labels: list[int | None],
        *,
        classes: int,
        bits: int,
        k: int,
        alpha: float,
        steps: int | None,
        power: int,
        scaling: str,
        bins: int,
        seed: bytes,
    ) -> Propagation: ...
    def extend(self, x: NDArray[np.float32]) -> NDArray[np.float64]: ...
    @property
    def labels(self) -> list[int | None]: ...
    @property
    def scores(self) -> NDArray[np.float64]: ...

@final
class Datastore:
    def __new__(cls, keys: NDArray[np.float32], labels: NDArray[np.uint16], classes: int) -> Datastore: ...
    def said(self, rows: NDArray[np.float32], k: int, scale: float) -> NDArray[np.float64]: ...

def best_part(
    neighbours: NDArray[np.float64], network: NDArray[np.float64], labels: NDArray[np.uint16]
) -> float: ...
def folds(labels: NDArray[np.uint16], count: int, seed: bytes) -> list[list[int]]: ...

@final
class SessionRows:
    @staticmethod
    def read(
        session: str, file: str | PathLike[str], label: str | None, name: str
    ) -> SessionRows: ...
    @property
    def said(self) -> str | None: ...
    @property
    def count(self) -> int: ...

@final
class Running:
    @staticmethod
    def start(
        session: str,
        key: str | PathLike[str],
        rows: SessionRows | None,
        *,
        listen: list[str],
        mdns: bool,
        network_key: bytes | None,
        state: str | PathLike[str] | None,
        dataset: str | None,
        budget: str | None,
        strict: bool,
        yes: bool,
    ) -> Running: ...
    def next(self, seconds: float) -> tuple[str, str, bytes | None] | None: ...
    def leave(self) -> None: ...
    def add_address(self, peer: str, address: str) -> None: ...

def call(arguments: list[str]) -> tuple[str, list[str], Exception | None]: ...
def peer_id(key: str | PathLike[str]) -> str: ...
