//! Standard error, which may fail: a full disk, a pipe without a reader, a closed terminal. In that case the
//! messages of a command are lost, but its work, its files and its exit code are not affected.
//!
//! No other part of this program writes to standard error: clippy refuses `eprintln!` and `println!`, because
//! they may panic.

use std::io::{self, Write};

/// Standard error. A program that writes to it never gets an error.
#[derive(Debug)]
pub(super) struct Console;

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line.
pub(super) fn line(text: &str) {
    let _ = Console.write_all(format!("{text}\n").as_bytes());
}
