"""The protocol's primitives, written from `protocol-spec.md` alone.

The second peer (`peer`) and the check of the vectors (`vectors`) both use them, so that each primitive has
one implementation in Python. Nothing here uses the Rust code.
"""

VERSION = 5  # version of the protocol
PROTOCOL = b"flyswarm/%d" % VERSION  # every hash and signature begins with it


class Refused(ValueError):
    """An input that must be refused. `kind` is a class of section 17 or of the vectors. `peer` is the peer
    that caused it, None for the sender."""

    def __init__(self, kind: str, text: str = "", peer: int | None = None) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text
        self.peer = peer

    def __str__(self) -> str:
        return self.text or self.kind
