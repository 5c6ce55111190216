//! Finds the directories of runs, and the files in them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gpu_leak_check::__command::{run_file_name, run_files};
use gpu_leak_check::report::run_file::Header;

use crate::exit::{ExitResult, Failure};
use crate::workspace::{self, Workspace};

/// Returns `chosen`, or the newest run of this workspace if `chosen` is empty.
pub(crate) fn chosen_or_newest(chosen: &[PathBuf]) -> ExitResult<Vec<PathBuf>> {
    if !chosen.is_empty() {
        return Ok(chosen.to_vec());
    }
    let runs = workspace::runs()?;
    let newest = newest_first(&runs)
        .into_iter()
        .find(|run| may_be_of_this_workspace(run));
    newest.map(|directory| vec![directory]).ok_or_else(|| {
        let runs = runs.display();
        match Workspace::here() {
            Ok(_) => Failure::unmeasured(format!(
                "there is no run of this workspace in {runs}: run checked tests first, for example with `cargo gpu-leak test`"
            )),
            Err(failure) => Failure::usage(format!(
                "there is no run in {runs}: pass the directory of a run ({})",
                failure.message
            )),
        }
    })
}

/// Returns the directories of the runs in `base`, the newest first. Runs that a command has set
/// aside, in hidden directories, are not included.
pub(crate) fn newest_first(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let mut runs: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .map(|entry| entry.path())
        .filter_map(|directory| Some((written(&run_files(&directory).ok()?)?, directory)))
        .collect();
    runs.sort_by(|left, right| right.cmp(left));
    runs.into_iter().map(|(_, directory)| directory).collect()
}

/// Returns the newest run of the workspace that was written before the run with these files, or the
/// newest of all if there are no files.
pub(crate) fn before(run: &[PathBuf]) -> ExitResult<Option<PathBuf>> {
    let absolute = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let of_run: BTreeSet<PathBuf> = (run.iter())
        .filter_map(|file| Some(absolute(file).parent()?.to_owned()))
        .collect();
    let is_earlier = |directory: &PathBuf| {
        let files = run_files(directory).unwrap_or_default();
        let is_other = !of_run.contains(&absolute(directory));
        is_other
            && may_be_of_this_workspace(directory)
            && (run.is_empty() || written(&files) < written(run))
    };
    Ok(newest_first(&workspace::runs()?)
        .into_iter()
        .find(is_earlier))
}

/// Whether the run in this directory may belong to this workspace. Several workspaces may share a
/// target directory.
fn may_be_of_this_workspace(directory: &Path) -> bool {
    let Ok(workspace) = Workspace::here() else {
        return true;
    };
    let files = run_files(directory).unwrap_or_default();
    // A directory that does not exist here belongs to another machine or container.
    let packages = files.iter().filter_map(|file| manifest_dir_of(file));
    let mut packages = packages.filter(|it| it.is_dir()).peekable();
    packages.peek().is_none() || packages.any(|it| workspace.has_package_in(&it))
}

/// Returns the directory of the package whose program wrote a run file.
fn manifest_dir_of(file: &Path) -> Option<PathBuf> {
    /// How many bytes are read for the header.
    const LONGEST_HEADER: u64 = 1 << 16;
    let mut line = Vec::new();
    let mut file = BufReader::new(File::open(file).ok()?.take(LONGEST_HEADER));
    file.read_until(b'\n', &mut line).ok()?;
    let header: Header = serde_json::from_slice(&line).ok()?;
    header.environment.manifest_dir.map(PathBuf::from)
}

/// Returns when the last of these files was written.
fn written(files: &[PathBuf]) -> Option<SystemTime> {
    let times = files
        .iter()
        .filter_map(|file| file.metadata().ok()?.modified().ok());
    times.max()
}

/// Returns `path` itself, or the files of the run in that directory. A directory with a single run
/// in it, such as `GPU_LEAK_CHECK_OUTPUT` on a fresh CI machine, means that run.
pub(crate) fn files_of(path: &Path) -> ExitResult<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let path = &if path.exists() {
        path.to_owned()
    } else {
        named_run(path)?
    };
    let read = |directory: &Path| {
        let shown = directory.display();
        run_files(directory).map_err(|why| Failure::usage(format!("cannot read {shown}: {why}")))
    };
    let files = read(path)?;
    if !files.is_empty() {
        return Ok(files);
    }
    let shown = path.display();
    match &newest_first(path)[..] {
        [only] => read(only),
        [newest, older @ ..] => Err(Failure::usage(format!(
            "{shown} is not a run but contains {} runs: pass one of them, such as {}",
            older.len() + 1,
            newest.display()
        ))),
        // A run may have the same name as an unrelated directory here.
        [] => run_files(&directory_of_name(path)?)
            .ok()
            .filter(|files| !files.is_empty())
            .ok_or_else(|| {
                Failure::usage(format!(
                    "{shown} contains no .jsonl files: pass the directory of a run, such as \
                     target/gpu-leak-check/4711-1234"
                ))
            }),
    }
}

/// Returns the directory that a run of this name would have in the workspace.
fn directory_of_name(name: &Path) -> ExitResult<PathBuf> {
    Ok(workspace::runs()?.join(run_file_name(&name.to_string_lossy())))
}

/// Returns the directory of the run with this name in the workspace.
fn named_run(name: &Path) -> ExitResult<PathBuf> {
    /// How many of the existing runs a message names.
    const MAX_NAMED: usize = 5;
    let run = directory_of_name(name)?;
    if run.is_dir() {
        return Ok(run);
    }
    let runs = workspace::runs()?;
    // If `name` is a path, the caller reports that the path cannot be read.
    if name.components().count() > 1 {
        return Ok(name.to_owned());
    }
    let present = newest_first(&runs);
    let names = present.iter().filter_map(|run| run.file_name());
    let names: Vec<_> = names
        .take(MAX_NAMED)
        .map(|name| name.to_string_lossy())
        .collect();
    let there = match (&names[..], present.len().saturating_sub(MAX_NAMED)) {
        ([], _) => "there is no run there".to_owned(),
        (_, 0) => format!("the runs there are {}", names.join(", ")),
        (_, more) => format!("the runs there are {} and {more} more", names.join(", ")),
    };
    let (name, runs) = (name.display(), runs.display());
    Err(Failure::usage(format!(
        "there is no run called {name} in {runs}, and no file or directory of that name: {there}. \
         `cargo gpu-leak test --name {name}` gives a run this name"
    )))
}
