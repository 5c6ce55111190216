//! `cargo gpu-leak report`: reads runs, judges them, and writes what is asked for.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use crate::arguments::{Format, Report};
use crate::deny::denied;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{print_bytes, say};
use crate::overview::Overview;
use crate::render::{self, Rendering};
use crate::run::{self, Run};
use crate::workspace::{self, Workspace};

/// The whole of `report`.
pub(crate) fn report(asked: &Report) -> Outcome<Exit> {
    let folders = chosen_or_newest(&asked.runs)?;
    let run = Run::read(&folders)?;
    let overview = Overview::of(&run);
    let denied = denied(&run, &overview, &asked.judging, &folders)?;
    write(asked.format, asked.out.as_deref(), &run, &overview)?;
    for sentence in &denied {
        say(format_args!("denied: {sentence}"));
    }
    Ok(overview.judge(!denied.is_empty(), asked.judging.require_measured))
}

/// `chosen`, else the newest run of this workspace.
pub(crate) fn chosen_or_newest(chosen: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    if !chosen.is_empty() {
        return Ok(chosen.to_vec());
    }
    let runs = workspace::runs()?;
    let newest = run::newest_first(&runs).into_iter().next();
    newest.map(|folder| vec![folder]).ok_or_else(|| {
        let runs = runs.display();
        match Workspace::here() {
            Ok(_) => Failure::unmeasured(format!(
                "there is no run in {runs}: run checked tests first, such as `cargo gpu-leak test`"
            )),
            Err(failure) => Failure::usage(format!(
                "there is no run in {runs}, so name the folder of one; {}",
                failure.what
            )),
        }
    })
}

/// Writes one output to `out`, else to the standard output.
pub(crate) fn write(
    format: Format,
    out: Option<&Path>,
    run: &Run,
    overview: &Overview<'_>,
) -> Outcome<()> {
    let how = Rendering {
        width: match out {
            Some(_) => render::WIDTH,
            None => render::width_of_stdout(),
        },
        root: workspace::root(),
    };
    let is_bytes = format == Format::Snapshot;
    if is_bytes && out.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage(
            "a snapshot is no text: name a file by --out, or send it elsewhere",
        ));
    }
    let rendered = render::render(format, run, overview, &how)?;
    match out {
        None => print_bytes(&rendered),
        Some(path) => fs::write(path, rendered).map_err(|why| {
            Failure::usage(format!("{} cannot be written: {why}", path.display()))
        })?,
    }
    Ok(())
}
