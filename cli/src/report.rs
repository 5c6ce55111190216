//! `cargo gpu-leak report`: reads runs, judges them, and writes what is asked for.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use gpu_leak_check::__command::{Told, allow_entries};
use gpu_leak_check::report::escape;
use gpu_leak_check::report::model::{Outcome as Weight, Verdict};

use crate::arguments::{Deny, Format, Judging, Report};
use crate::exit::{Exit, Failure, Outcome, print_bytes, say};
use crate::overview::Overview;
use crate::render::{self, Rendering};
use crate::run::{self, Run};
use crate::verdicts;
use crate::workspace::{self, Workspace};

/// The file that says what may stay.
pub(crate) const CONFIG: &str = "gpu-leak-check.toml";

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
    Ok(judge(
        &overview,
        !denied.is_empty(),
        asked.judging.require_measured,
    ))
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

/// How a run that was summed up ends the command.
pub(crate) fn judge(overview: &Overview<'_>, denied: bool, require_measured: bool) -> Exit {
    if overview.has_findings() || denied {
        return Exit::Findings;
    }
    let unread = overview.finished == 0 || !overview.problems.is_empty();
    let failed_blind = overview
        .unmeasured
        .iter()
        .any(|report| verdicts::outcome(report) == Weight::Fail);
    if unread || failed_blind || (require_measured && is_blind(overview)) {
        return Exit::Unmeasured;
    }
    Exit::Clean
}

/// Whether anything was not seen.
pub(crate) fn is_blind(overview: &Overview<'_>) -> bool {
    overview.finished == 0 || !overview.problems.is_empty() || !overview.unmeasured.is_empty()
}

/// What `--deny` finds, a sentence each.
pub(crate) fn denied(
    run: &Run,
    overview: &Overview<'_>,
    judging: &Judging,
    folders: &[PathBuf],
) -> Outcome<Vec<String>> {
    let mut denied = Vec::new();
    if judging.deny.contains(&Deny::Expired) {
        denied.extend(expired(run));
    }
    if judging.deny.contains(&Deny::New) {
        denied.extend(new(overview, judging.against.as_deref(), folders)?);
    }
    if judging.deny.contains(&Deny::Unused) {
        denied.extend(unused(run, overview)?);
    }
    if judging.deny.contains(&Deny::Warned) {
        denied.extend(warned(run));
    }
    Ok(denied)
}

/// What the notes of allowed findings say of their entries.
fn entries_in_use(run: &Run) -> impl Iterator<Item = Told<'_>> {
    let findings = run.reports().flat_map(|report| &report.findings);
    let allowed = findings.filter(|finding| finding.verdict == Verdict::Allowed);
    allowed.flat_map(|finding| finding.notes.iter().filter_map(|note| Told::of(note)))
}

fn expired(run: &Run) -> Vec<String> {
    let mut expired: Vec<_> = entries_in_use(run)
        .filter_map(|entry| Some((entry.stands_in, entry.expired?)))
        .map(|(place, day)| format!("{place} allows what it may not since {day}"))
        .collect();
    expired.sort_unstable();
    expired.dedup();
    expired
}

/// The findings whose fingerprint the older run has not, whatever their verdict.
fn new(
    overview: &Overview<'_>,
    against: Option<&Path>,
    folders: &[PathBuf],
) -> Outcome<Vec<String>> {
    let older = match against {
        Some(folder) => folder.to_owned(),
        None => run_before(folders)?,
    };
    let older = Run::read(&[older])?;
    let known = Overview::of(&older);
    let is_known = |fingerprint: &str| {
        let mut groups = known.groups.iter();
        groups.any(|group| group.finding.site.fingerprint == fingerprint)
    };
    let new = overview.groups.iter().map(|group| &group.finding);
    let new = new.filter(|finding| !is_known(&finding.site.fingerprint));
    let told = new.map(|finding| {
        format!(
            "new: {}: {} at {}",
            finding.verdict.name(),
            gpu_leak_check::report::what(finding),
            finding.site.location()
        )
    });
    Ok(told.collect())
}

/// The newest run of the workspace that is none of `folders`.
fn run_before(folders: &[PathBuf]) -> Outcome<PathBuf> {
    let absolute = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let these: Vec<_> = folders.iter().map(absolute).collect();
    let runs = run::newest_first(&workspace::runs()?);
    let mut others = runs
        .into_iter()
        .filter(|run| !these.contains(&absolute(run)));
    others.next().ok_or_else(|| {
        Failure::usage("there is no run before this one: name one by --against FOLDER")
    })
}

/// The checks whose findings fail nothing by their policy.
fn warned(run: &Run) -> Vec<String> {
    let warned = run.reports().filter(|report| report.is_only_warned());
    warned
        .map(|report| {
            format!(
                "{}: {}, and `on_leak` only warns of it",
                escape::name(&report.test),
                report.verdict.name()
            )
        })
        .collect()
}

/// The entries of the configuration file that no finding of the run is allowed by. Nobody knows of a
/// run that has not seen everything.
fn unused(run: &Run, overview: &Overview<'_>) -> Outcome<Vec<String>> {
    let Some((path, shown)) = configuration() else {
        return Err(Failure::usage(format!(
            "there is no {CONFIG} from here up to the workspace, so nothing in it can be unused"
        )));
    };
    if is_blind(overview) || !overview.aborted.is_empty() {
        say(
            "note: what allowed nothing is not denied: this run has checks that did not end, did \
             not measure or cannot be read, and what they would have used is unknown",
        );
        return Ok(Vec::new());
    }
    let used: Vec<_> = entries_in_use(run).map(|entry| entry.stands_in).collect();
    let entries = allow_entries(&path, &shown).map_err(Failure::usage)?;
    let unused = entries
        .into_iter()
        .filter(|entry| !used.contains(&&*entry.stands_in));
    Ok(unused
        .map(|entry| {
            let reason = escape::sentence(&entry.reason);
            format!("{} allowed nothing in this run ({reason})", entry.stands_in)
        })
        .collect())
}

/// The configuration file that checks started here would use, and how reports show it.
pub(crate) fn configuration() -> Option<(PathBuf, String)> {
    let root = workspace::root();
    let chosen = env::var_os("GPU_LEAK_CHECK_CONFIG").filter(|value| !value.is_empty());
    let here = env::current_dir().unwrap_or_else(|_| root.clone());
    let found = match chosen {
        Some(chosen) => Some(root.join(chosen)),
        None => {
            let inside = here
                .ancestors()
                .take_while(|folder| folder.starts_with(&root));
            inside
                .map(|folder| folder.join(CONFIG))
                .find(|path| path.is_file())
        }
    };
    found.map(|path| {
        let shown = path
            .strip_prefix(&root)
            .unwrap_or(&path)
            .display()
            .to_string();
        (path, shown)
    })
}
