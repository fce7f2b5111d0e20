from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

@dataclass(frozen=True)
class Identity:
    path: Path
    peer_id: str
    @classmethod
    def new(cls, path: str | PathLike[str] | None = None) -> Self: ...
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self: ...

@dataclass(frozen=True)
class Ledger:
    path: Path
    datasets: list[dict[str, Any]]
    charges: list[dict[str, Any]]
    @classmethod
    def read(cls, key: Identity | str | PathLike[str] | None) -> Self: ...
