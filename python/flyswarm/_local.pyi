from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from flyswarm._events import Event
from flyswarm._joining import Joined, Result
from flyswarm._session import JoinOptions, Session

class Federation(list[Joined[Result]]):
    names: list[str]
    session: Session[Result]
    def __init__(
        self, results: Sequence[Joined[Result]], names: list[str], session: Session[Result]
    ) -> None: ...
    def table(self) -> str: ...

def local(
    session: Session[Result],
    parts: Sequence[tuple[Any, Any]] | Mapping[str, tuple[Any, Any]],
    *,
    trainers: Sequence[Any] | Mapping[str, Any] | None = None,
    progress: bool = False,
    on_event: Callable[[str, Event], object] | None = None,
    **given: Unpack[JoinOptions],
) -> Federation[Result]: ...
