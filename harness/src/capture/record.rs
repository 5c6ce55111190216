//! Records the events that the ledger of this process receives, if `GPU_LEAK_CHECK_RECORD=file` is
//! set.
//!
//! Every line is written by a single `write`, before the next event is applied. So a process that
//! is killed leaves behind everything that it has recorded. Wrappers wait for these writes, so
//! recording is meant for investigations and not for everyday use.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

use gpu_leak_interpose::uncancelled;
use serde::Serialize;

use super::recording::{Line, RecordedEvent, RecordingHeader, SCHEMA, SCHEMA_VERSION, Stack};
use crate::files::through_no_link;
use crate::ledger::event::{Event, Ticket};
use crate::ledger::{self, StackId, Stacks};
use crate::recursion_guard::quiet;
use crate::sync::{Mutex, MutexGuard, OnceLock, locked};

/// The environment variable that requests a recording.
pub(crate) const VARIABLE: &str = "GPU_LEAK_CHECK_RECORD";

/// The placeholder for the process ID.
const PID: &str = "%p";

/// The recorder of this process. It is set when the first check begins; `None` if no recording was
/// requested.
static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();

/// Begins to record if `GPU_LEAK_CHECK_RECORD` is set. Call this before any source is started. A
/// relative path is relative to `root`. The file is created only by [`identify`], so a process that
/// checks nothing leaves no file.
pub(crate) fn begin(root: &Path) {
    RECORDER.get_or_init(|| {
        let path = root.join(requested()?.replace(PID, &process::id().to_string()));
        ledger::live().listen(Box::new(|ledger, event, answer| {
            if let Some(recorder) = recorder_of_this_process() {
                recorder.event(ledger.stacks(), event, answer);
            }
        }));
        Some(Recorder::new(path))
    });
}

/// Returns the variable's value, if it is set.
pub(crate) fn requested() -> Option<String> {
    let name = env::var_os(VARIABLE).filter(|value| !value.is_empty())?;
    Some(name.to_string_lossy().into_owned())
}

/// Returns the variable's value for a child process, so that the child does not overwrite this
/// recording; `None` if no recording was requested.
pub(crate) fn name_for_a_child() -> Option<PathBuf> {
    requested().map(|name| with_placeholder(Path::new(&name)))
}

/// Returns a name with a placeholder for the process ID: `gpu-%p.jsonl` for `gpu.jsonl`.
fn with_placeholder(name: &Path) -> PathBuf {
    let (Some(stem), false) = (name.file_stem(), name.to_string_lossy().contains(PID)) else {
        return name.to_owned();
    };
    let mut file = stem.to_owned();
    file.push("-");
    file.push(PID);
    if let Some(extension) = name.extension() {
        file.push(".");
        file.push(extension);
    }
    name.with_file_name(file)
}

/// Creates the file and writes its header. Called at the first check.
pub(crate) fn identify() {
    if let Some(recorder) = recorder_of_this_process() {
        let _quiet = quiet();
        recorder.identify(&header(), create);
    }
}

pub(crate) fn recorder_of_this_process() -> Option<&'static Recorder> {
    RECORDER.get()?.as_ref()
}

/// Creates an empty file, and its directory if necessary. A symbolic link is not followed: the
/// file's name can be guessed, others may be able to write to the directory, and the target of the
/// link would be truncated.
fn create(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    if path.is_symlink() {
        return Err(io::Error::other("it is a symbolic link"));
    }
    // The file is opened for appending. If another process uses the same name for its recording,
    // the lines of both processes stay intact, and a reader can detect the problem.
    let file = through_no_link().append(true).create(true).open(path)?;
    file.set_len(0)?;
    Ok(Box::new(Reopened(path.to_owned())))
}

/// The file of a recording, which is opened again for each write, because a program may close file
/// descriptors that it did not open and then reuse their numbers.
struct Reopened(PathBuf);

impl Write for Reopened {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = through_no_link().append(true).open(&self.0)?;
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Describes this process.
fn header() -> RecordingHeader {
    let program = env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    RecordingHeader {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: program.into_owned(),
        pid: process::id(),
    }
}

/// A recording in progress.
pub(crate) struct Recorder {
    path: PathBuf,
    state: Mutex<RecorderState>,
}

struct RecorderState {
    output: RecordingOutput,
    /// The number of the last event.
    order: u64,
    /// The ID of the first backtrace that has not been written.
    next_stack: u32,
    /// The IDs of backtraces that were assigned before the frames were stored.
    late: Vec<u32>,
}

enum RecordingOutput {
    /// Collects lines until the header can be written, which must be the first line.
    Waiting(Vec<u8>),
    Open(Box<dyn Write + Send>),
    /// The file could not be written. This holds the error message until it has been reported.
    GaveUp(Option<String>),
}

impl Recorder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            state: Mutex::new(RecorderState {
                output: RecordingOutput::Waiting(Vec::new()),
                order: 0,
                next_stack: 1,
                late: Vec::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        locked(&self.state)
    }

    /// Creates the file by calling `create`, and writes the header and the lines that have been
    /// collected so far. Has an effect only once.
    pub(super) fn identify(
        &self,
        header: &RecordingHeader,
        create: impl FnOnce(&Path) -> io::Result<Box<dyn Write + Send>>,
    ) {
        let mut state = self.state();
        let RecordingOutput::Waiting(waiting) = &mut state.output else {
            return;
        };
        let header = line(&Line::<Event>::Header(header.clone()));
        let first = header.map(|header| [header, std::mem::take(waiting)].concat());
        match create(&self.path) {
            Ok(file) => {
                state.output = RecordingOutput::Open(file);
                self.write(&mut state, first);
            }
            Err(error) => state.output = RecordingOutput::GaveUp(Some(why(&self.path, &error))),
        }
    }

    /// Records an event that has just been applied. Must be called before any other event can be
    /// applied.
    pub(super) fn event(&self, stacks: &Stacks, event: &Event, ticket: Option<Ticket>) {
        let mut state = self.state();
        state.order += 1;
        let recorded_event = Line::Event(RecordedEvent {
            order: state.order,
            event,
            ticket,
            at_us: now_us(),
        });
        let lines = state.new_stacks(stacks).and_then(|mut lines| {
            lines.extend(line(&recorded_event)?);
            Ok(lines)
        });
        self.write(&mut state, lines);
    }

    /// Adds lines of a check. If their position among the events matters, call this [between two
    /// events](crate::ledger::Ledger::between_events).
    pub(crate) fn add<L: Serialize>(&self, added: &[L]) {
        let _quiet = quiet();
        let lines: serde_json::Result<Vec<_>> = added.iter().map(line).collect();
        let lines = lines.map(|lines| lines.concat());
        self.write(&mut self.state(), lines);
    }

    /// Returns the reason why nothing is recorded, but only once; `None` while recording works.
    pub(crate) fn note(&self) -> Option<String> {
        let _quiet = quiet();
        match &mut self.state().output {
            RecordingOutput::GaveUp(why) => why.take(),
            RecordingOutput::Waiting(..) | RecordingOutput::Open(_) => None,
        }
    }

    fn write(&self, state: &mut RecorderState, lines: serde_json::Result<Vec<u8>>) {
        let written = match (lines, &mut state.output) {
            (Err(error), _) => Err(error.into()),
            (Ok(lines), RecordingOutput::Waiting(waiting)) => {
                waiting.extend(lines);
                Ok(())
            }
            (Ok(lines), RecordingOutput::Open(file)) => uncancelled(|| file.write_all(&lines)),
            (Ok(_), RecordingOutput::GaveUp(_)) => return,
        };
        if let Err(error) = written {
            state.output = RecordingOutput::GaveUp(Some(why(&self.path, &error)));
        }
    }
}

impl RecorderState {
    /// Returns lines for the backtraces that have been interned since the last call. They are found
    /// by their IDs rather than through the events that refer to them, because a backtrace is
    /// interned before its event is applied.
    fn new_stacks(&mut self, stacks: &Stacks) -> serde_json::Result<Vec<u8>> {
        let end = stacks.end();
        self.late.extend(self.next_stack..end);
        self.next_stack = end;
        let mut lines = Vec::new();
        let mut late = Vec::new();
        for number in self.late.drain(..) {
            let id = StackId(number);
            match stacks.frames(id) {
                // Another thread has reserved the ID and is about to store the backtrace.
                [] => late.push(number),
                addresses => lines.extend(line(&Line::<Event>::Stack(Stack {
                    id,
                    addresses: addresses.to_vec(),
                }))?),
            }
        }
        self.late = late;
        Ok(lines)
    }
}

fn now_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |since| since.as_micros() as u64)
}

fn line(record: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

fn why(path: &Path, error: &io::Error) -> String {
    format!(
        "nothing is recorded: cannot write {}: {error}; set GPU_LEAK_CHECK_RECORD to a writable \
         file",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::{create, with_placeholder};

    #[test]
    fn an_earlier_recording_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/gpu.jsonl");
        create(&path).unwrap().write_all(b"a long line\n").unwrap();
        create(&path).unwrap().write_all(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "new\n");
    }

    /// A program may close every descriptor that it does not know, and reuse the number.
    #[cfg(target_os = "linux")]
    #[test]
    fn no_descriptor_of_the_file_stays_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("gpu.jsonl");
        let mut file = create(&path).unwrap();
        file.write_all(b"one line\n").unwrap();
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let leads_there = open.filter(|it| fs::read_link(it.path()).is_ok_and(|to| to == path));
        assert_eq!(leads_there.count(), 0);
        file.write_all(b"another\n").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "one line\nanother\n");
    }

    #[cfg(unix)]
    #[test]
    fn the_target_of_a_link_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (link, secret) = (
            directory.path().join("gpu.jsonl"),
            directory.path().join("secret"),
        );
        fs::write(&secret, "precious").unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        let why = create(&link).err().expect("a link is refused");
        assert!(why.to_string().contains("symbolic link"), "{why}");
        assert_eq!(fs::read_to_string(secret).unwrap(), "precious");
        fs::remove_file(&link).unwrap();
        let nowhere = directory.path().join("nowhere");
        std::os::unix::fs::symlink(&nowhere, &link).unwrap();
        assert!(create(&link).is_err(), "nor is its target created");
        assert!(!nowhere.exists());
    }

    #[test]
    fn a_child_s_recording_has_a_different_name() {
        for (name, child) in [
            ("gpu.jsonl", "gpu-%p.jsonl"),
            ("made/gpu.one.jsonl", "made/gpu.one-%p.jsonl"),
            ("/tmp/gpu", "/tmp/gpu-%p"),
            ("of-%p/gpu.jsonl", "of-%p/gpu.jsonl"),
        ] {
            assert_eq!(with_placeholder(Path::new(name)), Path::new(child));
        }
    }
}
