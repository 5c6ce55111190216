//! `cargo gpu-leak report`: reads runs, judges them, and writes the requested format.

use crate::arguments::Report;
use crate::deny::Denied;
use crate::exit::ExitResult;
use crate::output::Stream;
use crate::overview::Overview;
use crate::render::Format;
use crate::run::Run;
use crate::run_directories;
use crate::session;

pub(crate) fn run(args: &Report) -> ExitResult<u8> {
    let run = Run::read(&run_directories::chosen_or_newest(&args.runs)?)?;
    let overview = Overview::of(&run);
    let older = args.judging.older(&run.files)?;
    older
        .iter()
        .try_for_each(|older| run.must_differ_from(older))?;
    let denied = Denied::in_run(&overview, &args.judging, false, older.as_ref())?;
    // Formats for other programs show problems late, or not at all.
    if args.out.is_some() || args.format != Format::Text {
        run.say_problems();
    }
    match &args.out {
        Some(file) => session::write_report(args.format, file, &overview)?,
        None => session::print_report(args.format, Stream::Output, &overview)?,
    }
    denied.say();
    Ok(args.judging.code(denied.exit_of(&overview)))
}
