from collections.abc import Mapping
from os import PathLike
from typing import Any

from flyswarm._session import Session

def simulate(
    scenario: str | PathLike[str] | Mapping[str, Any] | Session[Any],
    *,
    rows: tuple[Any, Any] | None = None,
    session: Session[Any] | str | PathLike[str] | None = None,
    seed: int | None = None,
    small: bool = False,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    calibrate: bool = False,
) -> dict[str, Any]: ...
