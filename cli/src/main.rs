//! `cargo gpu-leak`: summarises the findings of gpu-leak-check.
//!
//! [`arguments`] defines the command line and [`commands`] has a file for each subcommand. [`run`]
//! reads the files that processes wrote, [`overview`] summarises them, and [`render`] writes the
//! summary in each format.
//!
//! `exec` and cargo's subcommands share [`session`]: it names the run, starts the program through
//! [`launch`], waits, reads the files that the processes wrote, and prints and writes the report.
//! `cli/templates` contains the HTML page: its markup, style and script.
//!
//! # Floors
//!
//! Each floor imports only from floors below it; `tests/structure` checks this.
//!
//! ```text
//! 11 main                        the entry point
//! 10 commands                    a file for each subcommand; the four that run cargo share one
//! 9 session deny                 starts and watches a program, and summarises its run; `--deny`
//! 8 arguments comparison         the command line; what changed between two runs
//! 7 render launch progress       a file for each format; processes, signals and the preloaded library;
//!                                progress on a terminal;
//!   entries                      what the entries of the configuration file match in a run
//! 6 overview                     the model that all formats use
//! 5 run                          reads run files
//! 4 run_directories              which files belong to the runs that the user names
//! 3 workspace                    where runs and their configuration are
//! 2 exit                         exit codes
//! 1 output                       printing
//! ```

mod arguments;
mod commands;
mod comparison;
mod deny;
mod entries;
mod exit;
#[cfg(test)]
mod fuzz;
mod launch;
mod output;
mod overview;
mod progress;
mod render;
mod run;
mod run_directories;
mod session;
mod workspace;

use std::env;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::arguments::{Arguments, Command};
use crate::commands::{
    allow, cargo_passthrough, diff, doctor, every_test, exec, explain, own_options, report,
};
use crate::exit::{Exit, ExitResult};

fn main() -> ExitCode {
    #[cfg(unix)]
    launch::expect_children();
    let arguments = Arguments::parse_from(own_options::split(env::args_os()));
    match run_command(arguments.command) {
        Ok(code) => code.into(),
        Err(failure) => failure.report(),
    }
}

/// Runs the subcommand and returns the exit code.
fn run_command(command: Command) -> ExitResult<u8> {
    let exit = match command {
        Command::Test(args) => {
            return cargo_passthrough::run("test", &args.passthrough, args.every_test);
        }
        Command::EveryTest(args) => return every_test::run(&args),
        Command::Nextest(args) => return cargo_passthrough::run("nextest", &args, None),
        Command::Run(args) => return cargo_passthrough::run("run", &args, None),
        Command::Bench(args) => return cargo_passthrough::run("bench", &args, None),
        Command::Exec(args) => return exec::run(&args),
        Command::Report(args) => return report::run(&args),
        Command::Diff(args) => diff::run(&args)?,
        Command::Allow(args) => allow::run(&args)?,
        Command::Explain(args) => explain::run(&args)?,
        Command::Doctor(args) => doctor::run(&args)?,
        Command::Completions(args) => {
            let mut script = Vec::new();
            let mut command = Arguments::command();
            clap_complete::generate(args.shell, &mut command, "cargo-gpu-leak", &mut script);
            output::print(&String::from_utf8_lossy(&script));
            Exit::Clean
        }
    };
    Ok(exit.code())
}
