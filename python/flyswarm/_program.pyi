from os import PathLike
from typing import Any

def simulate(scenario: str | PathLike[str], **given: Any) -> dict[str, Any]: ...
