#!/usr/bin/env python3
"""Recomputes tests/vectors/*.json from protocol-spec.md, independently of the Rust code.

Needs Python 3.11 and the packages `cryptography`, `blake3` and `numpy`. The types of messages are read from
the specification itself (section 2.1); the rest follows its text, section by section. The code is in
`crates/conform/python`: `primitives`, which the second peer uses too, `parties` and `vectors`. Prints the
failed checks and `N passed, N failed`. The exit code is 1 if a check failed.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "crates/conform/python"))

from vectors.run import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
