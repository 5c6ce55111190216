//! `cargo gpu-leak`: sums up what gpu-leak-check found.
//!
//! [`arguments`] says what may be asked, [`run`] reads what processes wrote, [`overview`] sums it
//! up, [`render`] shows that.

mod arguments;
mod exit;
mod overview;
mod render;
mod report;
mod run;
mod verdicts;
mod workspace;

use std::env;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};
use crate::exit::{Exit, Outcome};

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(arguments::without_cargos_word(env::args_os()));
    match obey(arguments.command) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.tell(),
    }
}

fn obey(command: Command) -> Outcome<Exit> {
    match command {
        Command::Report(asked) => report::report(&asked),
    }
}
