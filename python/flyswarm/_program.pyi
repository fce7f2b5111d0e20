from os import PathLike
from typing import Any, NoReturn

def main() -> NoReturn: ...
def simulate(
    scenario: str | PathLike[str],
    *,
    session: str | PathLike[str] | None = None,
    seed: int | None = None,
    small: bool = False,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    calibrate: bool = False,
) -> dict[str, Any]: ...
