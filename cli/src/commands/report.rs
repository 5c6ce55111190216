//! `cargo gpu-leak report`: reads runs, judges them, and writes the format asked for.

use crate::arguments::Report;
use crate::deny::denied;
use crate::exit::{Exit, Outcome};
use crate::output::say;
use crate::overview::Overview;
use crate::run::{self, Run};
use crate::session;

pub(crate) fn run(asked: &Report) -> Outcome<Exit> {
    let folders = run::chosen_or_newest(&asked.runs)?;
    let run = Run::read(&folders)?;
    let overview = Overview::of(&run);
    let denied = denied(&overview, &asked.judging, &folders)?;
    session::write(asked.format, asked.out.as_deref(), &overview)?;
    for sentence in &denied {
        say(format_args!("denied: {sentence}"));
    }
    Ok(overview.judge(!denied.is_empty(), asked.judging.require_measured))
}
