//! The directory that the processes of one run share, and the removal of the directories of old
//! runs.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::SystemTime;

use super::run_file::{Header, Record, SNAPSHOT, parse};
use crate::call_site::lasting_hash;
use crate::exec_settings::text_variable;

/// How many runs are kept.
const KEPT: usize = 10;
/// The file that marks a directory as the directory of a run. It contains the header of the process
/// that runs the tests, and a record of each process that could not create its file. Directories
/// without this file are never removed.
const MARKER: &str = ".gpu-leak-check-run";
/// The variable that contains the process ID of a command and the name of its run.
pub const SESSION: &str = "GPU_LEAK_SESSION";
/// The variable that contains nextest's name of a run.
const NEXTEST_RUN: &str = "NEXTEST_RUN_ID";
/// The extension of a snapshot's file while it is being written.
pub(super) const UNFINISHED: &str = "unfinished";
/// The maximum length of a name in bytes. File systems allow 255 bytes.
const LONGEST_NAME: usize = 100;
/// How many bytes of a run file are read for its header.
const LONGEST_HEADER: u64 = 1 << 16;

/// The directory of a run, which need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunDirectory {
    /// The directory that contains one directory per run.
    pub(super) base: PathBuf,
    pub(super) run: String,
}

impl RunDirectory {
    /// Returns the file that marks the directory.
    pub(super) fn marker(&self) -> PathBuf {
        self.base.join(&self.run).join(MARKER)
    }

    /// Creates a new file in the directory, for process `pid` of the program `binary`. If the
    /// directory is new, removes the old runs that are no longer kept.
    pub(super) fn create_file(&self, binary: &str, pid: u32) -> io::Result<PathBuf> {
        let directory = self.base.join(&self.run);
        fs::create_dir_all(&self.base)?;
        let is_new = match fs::create_dir(&directory) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        mark(&directory, &self.run)?;
        let path = new_file(&directory, &format!("{}-{pid}", file_name(binary)))?;
        if is_new {
            self.remove_old_runs();
        }
        Ok(path)
    }

    /// Keeps the newest runs and those in progress, and removes all others. Several processes may
    /// do this at the same time, so missing files and failed removals are ignored.
    fn remove_old_runs(&self) {
        let Ok(entries) = fs::read_dir(&self.base) else {
            return;
        };
        let mut others: Vec<(SystemTime, PathBuf)> = entries
            .flatten()
            .filter(|entry| entry.file_name() != self.run.as_str() && is_run(&entry.path()))
            // A command has set this run aside, and will remove it.
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        others.sort_by(|(left, _), (right, _)| right.cmp(left));
        for (_, directory) in others.iter().skip(KEPT - 1) {
            if !is_in_progress(directory) {
                remove(directory);
            }
        }
    }
}

/// Whether `directory` is the directory of a run. A symbolic link is never accepted, because it may
/// point anywhere.
fn is_run(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir())
        && directory.join(MARKER).is_file()
}

/// Whether the process that runs the tests of the run in `directory`, or one that has a file in it,
/// is still running. A process on another machine or in another process namespace cannot be seen
/// from here.
fn is_in_progress(directory: &Path) -> bool {
    let mut files = run_files(directory).unwrap_or_default();
    files.push(directory.join(MARKER));
    files.iter().any(|path| {
        File::open(path)
            .and_then(|file| parse(BufReader::new(file.take(LONGEST_HEADER))))
            .is_ok_and(|file| file.header.and_then(|it| it.is_running()) == Some(true))
    })
}

/// Returns the reason why a process could not create its file in `directory`, if there is such a
/// process. The process has added the reason to the marker.
pub fn missing_file(directory: &Path) -> Option<String> {
    let marker = directory.join(MARKER);
    // Opening a pipe would block.
    let marker = marker.is_file().then(|| File::open(marker).ok())??;
    parse(BufReader::new(marker)).ok()?.lost_why
}

/// Returns the run files in `directory`, sorted by name.
///
/// # Errors
///
/// Returns an error if the directory cannot be read.
pub fn run_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let has_extension = |path: &PathBuf| path.extension().is_some_and(|end| end == "jsonl");
    let mut files: Vec<_> = paths
        .filter(has_extension)
        // Opening a pipe would block.
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    Ok(files)
}

/// A run whose name the user chose. An earlier run of that name is set aside, so that the two are
/// not mixed. When this is dropped, the earlier run is removed, or put back if the new run has no
/// directory because its program could not be compiled or started, or had no check.
#[derive(Debug)]
pub struct NamedRun {
    /// The name of the run's directory.
    pub name: String,
    directory: PathBuf,
    earlier: PathBuf,
}

impl NamedRun {
    /// Prepares the run `name` in `base`.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory contains something that does not belong to a run, if a
    /// process of the earlier run is still running, or if the earlier run cannot be renamed.
    pub fn begin(base: &Path, name: &str) -> io::Result<Self> {
        let name = run_file_name(name);
        let run = Self {
            directory: base.join(&name),
            earlier: base.join(format!("{}{}", aside(&name), process::id())),
            name,
        };
        // A command that was killed may have left an earlier run set aside.
        let left = fs::read_dir(base).into_iter().flatten().flatten();
        for left in left.filter(|it| is_left_aside(&it.file_name(), &run.name)) {
            run.end(&left.path());
        }
        let is_run = is_run(&run.directory);
        let mut files = fs::read_dir(&run.directory).into_iter().flatten().flatten();
        if files.any(|file| !is_run || !is_written_by_us(&file.path())) {
            return Err(io::Error::other(format!(
                "{} contains files that do not belong to a run; remove them, or choose another \
                 name",
                run.directory.display()
            )));
        }
        if is_run {
            if is_in_progress(&run.directory) {
                return Err(io::Error::other(
                    "a process of the earlier run with this name is still running; choose another \
                     name, or wait until it has ended",
                ));
            }
            fs::rename(&run.directory, &run.earlier).map_err(|why| {
                let shown = run.directory.display();
                io::Error::other(format!("cannot set the earlier run {shown} aside: {why}"))
            })?;
        }
        Ok(run)
    }

    /// Removes the run that was set aside at `earlier`, or puts it back if there is no new one.
    fn end(&self, earlier: &Path) {
        if !is_run(earlier) {
            return;
        }
        if self.directory.exists() {
            remove(earlier);
        } else {
            // If this fails, the earlier run remains where it was set aside.
            let _ = fs::rename(earlier, &self.directory);
        }
    }
}

/// A command that sets an earlier run aside renames the run's directory. Returns the beginning of
/// the new name, which is followed by the process ID of the command.
fn aside(name: &str) -> String {
    format!(".{name}-earlier-")
}

/// Whether this is the name of a directory to which a command renamed the run `name`, and that
/// command has ended.
fn is_left_aside(directory: &OsStr, name: &str) -> bool {
    let directory = directory.to_string_lossy();
    let process = directory.strip_prefix(&aside(name));
    process.is_some_and(|id| id.parse::<u32>().is_ok() && !Path::new("/proc").join(id).exists())
}

impl Drop for NamedRun {
    fn drop(&mut self) {
        self.end(&self.earlier);
    }
}

/// Whether `path` has the name of a file that this crate writes to the directory of a run.
fn is_written_by_us(path: &Path) -> bool {
    let end = path.extension();
    path.file_name() == Some(MARKER.as_ref())
        || end.is_some_and(|end| end == "jsonl" || end == SNAPSHOT || end == UNFINISHED)
}

/// Removes the files that this crate wrote to `directory`, and then the directory itself if nothing
/// else is left in it.
fn remove(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let written = entries.flatten().map(|entry| entry.path());
    let is_ours =
        |path: &PathBuf| path.file_name() != Some(MARKER.as_ref()) && is_written_by_us(path);
    for path in written.filter(is_ours) {
        // An error is ignored, because another process may have removed the file, and a leftover
        // file does no harm.
        let _ = fs::remove_file(path);
    }
    // The marker is removed only if nothing else is left, so the user's own files stay.
    let is_last = fs::read_dir(directory).is_ok_and(|entries| entries.count() == 1);
    if is_last && fs::remove_file(directory.join(MARKER)).is_ok() {
        let _ = fs::remove_dir(directory);
    }
}

/// Writes the marker as a new file. An existing file is never opened, because in a directory to
/// which others can write, it could be a link to any file.
fn mark(directory: &Path, run: &str) -> io::Result<()> {
    let header = Record::Header(Box::new(Header::of(runner(run), run))).to_line()?;
    within_size_limit(header.len() as u64)?;
    let marker = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(directory.join(MARKER));
    match marker {
        Ok(mut marker) => marker.write_all(&header),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns an error if this process may not write a file of `size` bytes. The write itself would
/// raise SIGXFSZ, which ends the process by default. The limit is read again each time, because a
/// test may set it; where there is no `/proc`, no limit is known.
pub(super) fn within_size_limit(size: u64) -> io::Result<()> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let row = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max file size"));
    let soft = row.and_then(|row| row.split_ascii_whitespace().next());
    match soft.and_then(|soft| soft.parse::<u64>().ok()) {
        Some(limit) if size > limit => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    }
}

/// Returns the ID of the process after which the run is named: the command, or the parent of this
/// process. That process does not end before the run. Returns 0, which is the ID of no process, if
/// a user chose the name.
fn runner(run: &str) -> u32 {
    let session = text_variable(SESSION).unwrap_or_default();
    let of_parent = run_name(|name| text_variable(name).filter(|_| name == NEXTEST_RUN));
    match session.split_once(' ') {
        Some((command, name)) if name == run => command.parse().unwrap_or_default(),
        _ if run == of_parent => parent(),
        _ => 0,
    }
}

/// Creates a file with this name or, if it exists, with a number added to the name, because process
/// IDs are reused during a long run.
fn new_file(directory: &Path, name: &str) -> io::Result<PathBuf> {
    let mut path = directory.join(format!("{name}.jsonl"));
    for copy in 2.. {
        match OpenOptions::new().append(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|_| path),
        }
        path = directory.join(format!("{name}-{copy}.jsonl"));
    }
    unreachable!("the directory has fewer files than there are suffixes to try")
}

/// Returns the name of this run. It is taken from `GPU_LEAK_CHECK_RUN` or `NEXTEST_RUN_ID`. If
/// neither is set, it is derived from the ID and the start time of the parent process, which is the
/// same `cargo test` for all programs of a run.
pub(super) fn run_name(variable: impl Fn(&str) -> Option<String>) -> String {
    let given = ["GPU_LEAK_CHECK_RUN", NEXTEST_RUN]
        .into_iter()
        .find_map(variable);
    match given.filter(|name| !name.is_empty()) {
        Some(name) => run_file_name(&name),
        None => parent_name(),
    }
}

/// Returns the parent's process ID and start time. The ID alone would not suffice, because IDs are
/// reused.
fn parent_name() -> String {
    let parent = parent();
    let stat = fs::read(format!("/proc/{parent}/stat")).unwrap_or_default();
    match start_time(&String::from_utf8_lossy(&stat)) {
        Some(start) => format!("{parent}-{start}"),
        None => parent.to_string(),
    }
}

fn parent() -> u32 {
    #[cfg(unix)]
    let parent = std::os::unix::process::parent_id();
    #[cfg(not(unix))]
    let parent = process::id();
    parent
}

/// Returns field 22 of
/// [proc_pid_stat(5)](https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html). Field 2 is a
/// name in parentheses that can contain anything, so the fields after it are counted from the last
/// parenthesis.
fn start_time(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

/// Returns the name of the directory of the run `name`. This is `name` itself if that is a plain
/// file name. Otherwise it ends with a hash of `name`, so that no two runs share a directory.
pub fn run_file_name(name: &str) -> String {
    let mut plain = file_name(name);
    if plain == name {
        return plain;
    }
    // The programs and the command may have been built by different compilers, and must still
    // calculate the same hash.
    let end = format!("-{:016x}", lasting_hash(name.as_bytes()));
    while plain.len() + end.len() > LONGEST_NAME {
        plain.pop();
    }
    plain + &end
}

/// Converts `name` to the name of a file that is not hidden. The result is never a path.
fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain = name.chars().map(|c| if is_plain(c) { c } else { '_' });
    let mut plain: String = plain.take(LONGEST_NAME).collect();
    while plain.len() > LONGEST_NAME {
        plain.pop();
    }
    match plain.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None if plain.is_empty() => "_".to_owned(),
        None => plain,
    }
}

#[cfg(test)]
mod tests;
