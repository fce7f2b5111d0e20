from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Generic, Literal, TypeAlias, TypedDict, Unpack, overload

from numpy.typing import ArrayLike

from flyswarm._classifier import FlyNNClassifier
from flyswarm._declared import Declared, Weights
from flyswarm._events import Event
from flyswarm._identity import Identity
from flyswarm._joining import Joined, Result
from flyswarm._network import Network
from flyswarm._results import Labels

File: TypeAlias = str | PathLike[str]
Fields: TypeAlias = Mapping[str, Any]

# The arguments of `Session.new` after the task, without `fedavg`.
class OtherOptions(TypedDict, total=False):
    features: int | str | Iterable[Any] | None
    classes: Iterable[Any] | None
    from_: File | Sequence[File] | None
    label: str | int | None
    group: str | None
    map: File | None
    min_rows: int | None
    epsilon: float | str | None
    network: Literal["logistic", "mlp", "cnn"] | None
    hidden: int | Sequence[int] | None
    rounds: int | None
    initial: File | None
    after: int | None
    refresh: int | None
    paper_settings: bool
    settings: File | None
    tuning: int | None
    candidates: int | None
    no_evaluate: bool
    hash: Literal["srp", "minhash"] | None
    open_distances: bool
    pairwise: bool
    choose: int | None
    hamming: str | None
    balance: bool
    few_rows: bool
    large_owner: bool
    set: Fields | None
    data: Fields | None
    evaluate: Fields | None
    flynn: Fields | None
    tune: Fields | None
    xclp: Fields | None
    pseudo_labels: Fields | None
    sketch: Fields | None
    custom: Fields | None
    privacy: Fields | None
    timing: Fields | None
    limits: Fields | None

class NewOptions(OtherOptions, total=False):
    fedavg: Fields | None

# The arguments of `FedAvg.join` after `progress`.
class TrainingOptions(TypedDict, total=False):
    label: str | int | None
    listen: Sequence[str]
    mdns: bool
    network_key: bytes | None
    state: File | None
    dataset: str | None
    budget: float | str | None
    strict: bool
    yes: bool
    addresses: Mapping[str, str] | None
    map: File | None
    drop: Sequence[str]
    initial: File | None
    metrics: int | str | None
    page: int | str | None
    trace: File | None
    personalise: bool

# The arguments of `Session.join` after `progress`.
class JoinOptions(TrainingOptions, total=False):
    hold_out: int | None

class Session(Generic[Result]):
    text: str
    def __init__(self, text: str) -> None: ...
    @overload
    @classmethod
    def new(
        cls,
        name: str,
        peers: Mapping[str, str | Identity],
        task: Literal["flynn", "tune"] = "flynn",
        **given: Unpack[NewOptions],
    ) -> Session[FlyNNClassifier]: ...
    @overload
    @classmethod
    def new(  # type: ignore[overload-overlap]
        cls,
        name: str,
        peers: Mapping[str, str | Identity],
        task: Literal["fedavg"],
        *,
        fedavg: Declared,
        **given: Unpack[OtherOptions],
    ) -> Session[Weights]: ...
    @overload
    @classmethod
    def new(
        cls,
        name: str,
        peers: Mapping[str, str | Identity],
        task: Literal["fedavg", "fedavg-xclp"],
        **given: Unpack[NewOptions],
    ) -> Session[Network]: ...
    @overload
    @classmethod
    def new(
        cls,
        name: str,
        peers: Mapping[str, str | Identity],
        task: Literal["xclp"],
        **given: Unpack[NewOptions],
    ) -> Session[Labels]: ...
    @overload
    @classmethod
    def new(
        cls,
        name: str,
        peers: Mapping[str, str | Identity],
        task: Literal["sketch"],
        **given: Unpack[NewOptions],
    ) -> Session[None]: ...
    @classmethod
    def load(cls, path: File) -> Session[Any]: ...
    def save(self, path: File) -> None: ...
    def show(self) -> dict[str, Any]: ...
    @property
    def name(self) -> str: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def task(self) -> str: ...
    def doctor(
        self,
        key: Identity | File | None = None,
        *,
        wait: int | None = None,
        listen: Sequence[str] = (),
        no_mdns: bool = False,
        network_key: File | None = None,
        state: File | None = None,
        out: File | None = None,
        data: File | None = None,
        map: File | None = None,
        label: str | int | None = None,
    ) -> list[dict[str, Any]]: ...
    def forecast(self, rows: int) -> dict[str, Any]: ...
    def join(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        key: Identity | File,
        on_event: Callable[[Event], object] | None = None,
        progress: bool = False,
        **given: Unpack[JoinOptions],
    ) -> Joined[Result]: ...
    async def join_async(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        key: Identity | File,
        on_event: Callable[[Event], object] | None = None,
        progress: bool = False,
        **given: Unpack[JoinOptions],
    ) -> Joined[Result]: ...
