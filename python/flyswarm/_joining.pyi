from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Generic, Literal

from numpy.typing import ArrayLike
from typing_extensions import TypeVar

from flyswarm._flyswarm import SessionRows
from flyswarm._personal import KNNPerClassifier
from flyswarm._plots import Page

# Type of the estimator that a session makes. It is `Any` for a session that is loaded from a file.
Result = TypeVar("Result", default=Any)

@dataclass(frozen=True)
class Joined(Generic[Result]):
    estimator: Result
    receipt: dict[str, Any]
    file: bytes
    figures: dict[str, Any] = ...
    own: str | None = ...
    warnings: list[str] = ...
    page: Page | None = ...
    personal: KNNPerClassifier | None = ...
    def plot(
        self, kind: Literal["rounds", "confusion", "calibration"] | None = None, ax: Any = None
    ) -> Any: ...
    def table(self, number: int = 0) -> Any: ...
    def report(self) -> Page: ...
    def __iter__(self) -> Iterator[Any]: ...
    @property
    def own_rows(self) -> str: ...

def join(session: Any, stop: Any, X: Any, y: ArrayLike | None, **given: Any) -> Joined[Any]: ...
def rows_of(
    session: Any,
    X: Any,
    y: ArrayLike | None,
    label: str | None,
    map: str | PathLike[str] | None = None,
    drop: Sequence[str] = (),
) -> SessionRows: ...
