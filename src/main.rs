//! The `flyswarm` command. It parses the arguments, runs the command, prints errors on one line, and exits
//! with a documented code.

// `println!` and `eprintln!` panic if their output cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

use std::process::ExitCode;

/// Many threads allocate and free chunks of vectors. This allocator is used because glibc returns such memory
/// to the system and requests it again each time (benches/sealed_sum.rs).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    flyswarm::cli::main()
}
