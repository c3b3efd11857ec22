//! The example runs.

#[path = "../examples/in_process.rs"]
mod in_process;

#[test]
fn the_example_runs() {
    in_process::main().expect("it works");
}
