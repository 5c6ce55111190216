//! `cargo gpu-leak report`: reads runs, judges them, and writes the requested format.

use crate::arguments::Report;
use crate::deny::Denied;
use crate::exit::ExitResult;
use crate::overview::Overview;
use crate::run::{self, Run};
use crate::session;

pub(crate) fn run(asked: &Report) -> ExitResult<u8> {
    let run = Run::read(&run::chosen_or_newest(&asked.runs)?)?;
    let overview = Overview::of(&run);
    let denied = Denied::in_run(&overview, &asked.judging, false)?;
    session::write(asked.format, asked.out.as_deref(), &overview)?;
    denied.say();
    Ok(asked.judging.code(denied.exit_of(&overview)))
}
