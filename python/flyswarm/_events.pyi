from dataclasses import dataclass
from typing import Any

@dataclass(frozen=True)
class Event:
    kind: str
    time: float
    fields: dict[str, Any]
    text: str

class SessionWarning(UserWarning): ...
