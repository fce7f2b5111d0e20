"""Recomputes the test vectors from `protocol-spec.md`, independently of the Rust code."""
