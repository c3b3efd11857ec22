//! The example runs.

#[path = "../examples/simulated_chip.rs"]
mod simulated_chip;

#[test]
fn the_example_runs() {
    simulated_chip::main().expect("it works");
}
