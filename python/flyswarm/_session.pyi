from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self, TypedDict, Unpack

from flyswarm._events import Event
from flyswarm._identity import Identity
from numpy.typing import ArrayLike

@dataclass(frozen=True)
class Joined:
    estimator: Any
    receipt: dict[str, Any]
    file: bytes
    figures: dict[str, Any] = ...
    def __iter__(self) -> Iterator[Any]: ...

# The options of `Session.join` that `join_async` passes on.
class JoinOptions(TypedDict, total=False):
    progress: bool
    label: str | None
    listen: Sequence[str]
    mdns: bool
    network_key: bytes | None
    state: str | PathLike[str] | None
    dataset: str | None
    budget: str | None
    strict: bool
    yes: bool
    addresses: Mapping[str, str] | None

class Session:
    text: str
    def __init__(self, text: str) -> None: ...
    @classmethod
    def new(cls, name: str, peers: Mapping[str, str | Identity], **given: Any) -> Self: ...
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def show(self) -> dict[str, Any]: ...
    @property
    def name(self) -> str: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def task(self) -> str: ...
    def doctor(
        self, key: Identity | str | PathLike[str] | None = None, **given: Any
    ) -> list[dict[str, Any]]: ...
    def forecast(self, rows: int) -> dict[str, Any]: ...
    def join(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        key: Identity | str | PathLike[str],
        on_event: Callable[[Event], object] | None = None,
        progress: bool = False,
        label: str | None = None,
        listen: Sequence[str] = (),
        mdns: bool = True,
        network_key: bytes | None = None,
        state: str | PathLike[str] | None = None,
        dataset: str | None = None,
        budget: str | None = None,
        strict: bool = False,
        yes: bool = False,
        addresses: Mapping[str, str] | None = None,
    ) -> Joined: ...
    async def join_async(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        key: Identity | str | PathLike[str],
        on_event: Callable[[Event], object] | None = None,
        **given: Unpack[JoinOptions],
    ) -> Joined: ...
