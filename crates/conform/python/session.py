"""Sessions that this peer can join: those of the task flynn without `select`, `[evaluate]`, `[table]` and
`privacy.epsilon`. A file with any of these is refused (M1.1)."""

from __future__ import annotations

import tomllib

from primitives import session
from primitives.table import need

LACKING = ("select", "evaluate", "table", "tune", "xclp", "sketch", "fedavg", "pseudo_labels", "custom")


class Session(session.Session):
    def __init__(self, text: str) -> None:
        tables = tomllib.loads(text)
        lacking = [name for name in LACKING if name in tables] + ["privacy.epsilon"] * ("epsilon" in tables.get("privacy", {}))
        need(not lacking, f"this peer lacks {', '.join(lacking)}, which the file asks for")
        need(tables.get("task") == "flynn", "this peer lacks all tasks but flynn")
        super().__init__(text)
        self.squares = self.scaling in ("standard", "soft-bins") or self.check_columns
        self.scaling_values = self.range or ([self.bins] if self.scaling == "soft-bins" else [])
