//! Runs all checks of a program, with libtest's command line. This implements
//! [`main!`](crate::main).

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use super::annotated::run;
use crate::case::Case;
use crate::registry;

/// Runs the checks that the command line selects.
pub fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = registry::cases().into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(case: &'static Case) -> Trial {
    let test = move || {
        if run(case) == ExitCode::SUCCESS {
            Ok(())
        } else {
            Err(Failed::from("the test returned an error"))
        }
    };
    Trial::test(case.name(), test).with_ignored_flag(case.ignored)
}
