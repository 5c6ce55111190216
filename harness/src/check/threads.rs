//! The threads of this process, as the kernel lists them, and which of them belong to a driver.

use std::fs::{self, File};
use std::io::Read;
#[cfg(target_os = "linux")]
use std::{fs::Metadata, os::unix::fs::MetadataExt, sync::OnceLock};

#[cfg(target_os = "linux")]
use crate::exit;

/// The directory in which the kernel lists the threads of this process.
const TASKS: &str = "/proc/self/task";

/// Reads one of the kernel's one-line files about a thread.
fn read(thread: i32, file: &str) -> Option<String> {
    // The kernel returns the line with the first read.
    let mut line = [0; 1024];
    let mut file = File::open(format!("{TASKS}/{thread}/{file}")).ok()?;
    let length = file.read(&mut line).ok()?;
    // A name may be cut off inside a character.
    Some(String::from_utf8_lossy(&line[..length]).into_owned())
}

/// Returns the name of a thread, which may contain anything, and the fields of its status that
/// follow the name.
fn status(thread: i32) -> Option<(String, String)> {
    let status = read(thread, "stat")?;
    let (name, fields) = status.rsplit_once(')')?;
    let (_number, name) = name.split_once('(')?;
    Some((name.to_owned(), fields.trim_start().to_owned()))
}

/// The open directory [`TASKS`]. It stays open, because looking up its path would be the slowest
/// part of a clean check.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct TaskDirectory {
    open: File,
    /// The device and inode numbers of the directory.
    identity: (u64, u64),
}

#[cfg(target_os = "linux")]
impl TaskDirectory {
    fn open() -> Option<Self> {
        let open = File::open(TASKS).ok()?;
        let identity = Self::identity(&open.metadata().ok()?);
        Some(Self { open, identity })
    }

    fn identity(metadata: &Metadata) -> (u64, u64) {
        (metadata.dev(), metadata.ino())
    }

    /// Returns the directory's metadata; `None` if the program has closed the descriptor, whose
    /// number may belong to another file by now.
    fn metadata(&self) -> Option<Metadata> {
        let metadata = self.open.metadata().ok()?;
        (Self::identity(&metadata) == self.identity).then_some(metadata)
    }
}

/// Returns how many threads this process has; `None` if it cannot be determined.
#[cfg(target_os = "linux")]
pub(super) fn count_threads() -> Option<u64> {
    static KEPT: OnceLock<Option<TaskDirectory>> = OnceLock::new();

    let kept = KEPT.get_or_init(TaskDirectory::open).as_ref();
    // A forked child has inherited the directory of its parent.
    let kept = kept.filter(|_| !exit::forked());
    let metadata = kept
        .and_then(TaskDirectory::metadata)
        .or_else(|| fs::metadata(TASKS).ok())?;
    // The kernel counts each thread as a link of this directory. Two more links belong to the
    // directory itself.
    metadata.nlink().checked_sub(2)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn count_threads() -> Option<u64> {
    None
}

/// Returns this thread's ID in the Linux kernel.
pub(super) fn this_thread() -> Option<i32> {
    let link = fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}

/// Returns how many nanoseconds a waiting thread has run so far
/// ([`/proc/PID/schedstat`](https://docs.kernel.org/scheduler/sched-stats.html)); `None` if it is
/// running or if this cannot be determined.
pub(super) fn time_of_waiting(thread: i32) -> Option<u64> {
    let (_, fields) = status(thread)?;
    // The first field is the state.
    if fields.starts_with('R') {
        return None;
    }
    read(thread, "schedstat")?.split(' ').next()?.parse().ok()
}

/// Returns the threads of this process; `None` if a thread began or ended in the meantime. If a
/// thread ends while the kernel lists the threads, another thread may be missing from the list.
pub(super) fn list_threads() -> Option<Vec<i32>> {
    let count = count_threads();
    let entries = fs::read_dir(TASKS).into_iter().flatten();
    let threads = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let threads: Vec<i32> = threads.collect();
    (count == Some(threads.len() as u64) && count_threads() == count).then_some(threads)
}

/// Whether a thread can still do something on its own. The kernel may list a thread for a moment
/// after it has been joined. A driver's thread acts only on request.
pub(super) fn can_act(thread: i32) -> bool {
    /// `PF_EXITING` in Linux.
    const EXITING: u64 = 4;
    status(thread).is_some_and(|(name, fields)| {
        // The flags come after the state and five numbers.
        let flags = fields.split(' ').nth(6);
        let flags: Option<u64> = flags.and_then(|flags| flags.parse().ok());
        flags.is_some_and(|flags| flags & EXITING == 0) && !is_drivers_name(&name)
    })
}

/// Whether a driver has started this thread for itself. The name is the only way to recognise
/// threads that a driver starts with `thrd_create`.
#[cfg(feature = "holders")]
pub(super) fn is_drivers_thread(thread: u32) -> bool {
    let thread = thread.cast_signed();
    let mut marked = gpu_leak_interpose::marked_threads().into_iter();
    marked.any(|it| it.id == thread && it.is_drivers())
        || status(thread).is_some_and(|(name, _)| is_drivers_name(&name))
}

/// Whether `name` is of the form `cuda-EvtHandlr`, `cuda00001400006` or `llvmpipe-7`. The prefix
/// `cuda` alone is not sufficient, because a test in a module `cuda` runs on a thread that is named
/// after the test, and a program may name its threads `cuda0` and `cuda1`.
fn is_drivers_name(name: &str) -> bool {
    /// The length to which the kernel shortens a name.
    const LONGEST: usize = 15;
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_hexdigit());
    let is_whole = name.len() == LONGEST;
    name == "cuda-EvtHandlr"
        || is_whole && name.strip_prefix("cuda").is_some_and(are_digits)
        || name.strip_prefix("llvmpipe-").is_some_and(are_digits)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
