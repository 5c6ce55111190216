//! The options of a test, and the settings that apply to all tests of a run.

mod allowed;
mod budgets;
mod expected;
mod file;
mod rounds;
mod shelf;

use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

/// Runs a test of this module with these environment variables, in a process without a GPU.
fn run_with(test: &str, variables: &[(&str, &str)]) -> Checked {
    let run = Run::of(&format!("settings::{test}"));
    checked::finish(
        variables
            .iter()
            .fold(run, |run, (name, value)| run.env(name, value)),
    )
}

fn run(test: &str) -> Checked {
    run_with(test, &[])
}

/// Returns the headline of the failing test.
#[track_caller]
fn headline(checked: &Checked) -> &str {
    assert!(!checked.child.status.success(), "{}", checked.output());
    let mut lines = checked.child.stderr.lines();
    let line = lines.find_map(|line| Some(line.split_once(" panicked at ")?.1));
    let Some((_, headline)) = line.and_then(|line| line.split_once(": ")) else {
        panic!("{}", checked.output());
    };
    headline
}
