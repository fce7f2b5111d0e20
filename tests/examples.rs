//! Runs the examples of the public API unchanged.

#[path = "../examples/join.rs"]
mod join;
#[path = "../examples/make_session.rs"]
mod make_session;
#[path = "../examples/own_task.rs"]
mod own_task;

#[test]
fn a_program_joins_a_session() {
    join::main().unwrap();
}

#[test]
fn a_program_makes_a_session() {
    make_session::main().unwrap();
}

#[test]
fn a_program_brings_its_own_task() {
    own_task::main().unwrap();
}
