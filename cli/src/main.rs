//! `cargo gpu-leak`: sums up what gpu-leak-check found.
//!
//! [`arguments`] says what may be asked, [`run`] reads what processes wrote, [`overview`] sums it
//! up, [`render`] shows that.

mod allow;
mod arguments;
mod attempts;
mod deny;
mod diff;
mod doctor;
mod every_test;
#[cfg_attr(not(unix), path = "exec/elsewhere.rs")]
mod exec;
mod exit;
mod explain;
#[cfg(test)]
mod fuzz;
#[cfg(unix)]
mod library;
mod names;
mod outcomes;
mod output;
mod overview;
mod passing;
#[cfg_attr(not(unix), allow(dead_code, reason = "no program is watched there"))]
mod progress;
mod render;
mod report;
mod run;
mod words;
mod workspace;

use std::env;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::arguments::{Arguments, Command};
use crate::exit::{Exit, Outcome};

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(words::words(env::args_os()));
    match obey(arguments.command) {
        Ok(code) => code.into(),
        Err(failure) => failure.tell(),
    }
}

/// The exit code.
fn obey(command: Command) -> Outcome<u8> {
    let exit = match command {
        Command::Test(asked) => {
            return passing::pass_through("test", &asked.passing, asked.every_test);
        }
        Command::EveryTest(asked) => return every_test::run(&asked),
        Command::Nextest(asked) => return passing::pass("nextest", &asked),
        Command::Run(asked) => return passing::pass("run", &asked),
        Command::Bench(asked) => return passing::pass("bench", &asked),
        Command::Exec(asked) => return exec::exec(&asked),
        Command::Report(asked) => report::report(&asked)?,
        Command::Diff(asked) => diff::diff(&asked)?,
        Command::Allow(asked) => allow::allow(&asked)?,
        Command::Explain(asked) => explain::explain(&asked)?,
        Command::Doctor => doctor::doctor()?,
        Command::Completions(asked) => {
            let mut script = Vec::new();
            let mut command = Arguments::command();
            clap_complete::generate(asked.shell, &mut command, "cargo-gpu-leak", &mut script);
            output::print(&String::from_utf8_lossy(&script));
            Exit::Clean
        }
    };
    Ok(exit.code())
}
