//! Which places of a program still lead to an address that it left behind.
//!
//! The search works as a garbage collector's does, without types to help it: from the program's own
//! statics, thread-locals and stacks, every word that may be the address of a heap block is
//! followed, and the place nearest to a wanted address or handle is named. The answer is advice for
//! whoever mends a leak, not a verdict: a copy of an address need not be in use.
//!
//! Memory is read through the kernel and never by dereferencing, for a bounded time and up to a
//! bounded size. The search knows glibc's layout of heap and stacks; elsewhere it finds nothing.
//!
//! [`gpu-leak-check`](https://docs.rs/gpu-leak-check) asks for it when a check fails, and describes
//! the program to it. The two are released together, and this interface may change in any release.

#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")),
    path = "elsewhere.rs"
)]
mod glibc;

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rustc_hash::FxHashSet;

/// One address or handle that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The values that mean it: for memory every address inside, for an object its handle alone.
    pub values: Range<u64>,
    /// The number of the group that it belongs to.
    pub group: usize,
}

/// The objects of the GPU's driver that are known, by their handles: addresses of its own heap blocks.
#[derive(Clone, Debug, Default)]
pub struct DriverObjects {
    /// Contexts, to which the blocks of all that belongs to one of them point.
    pub contexts: FxHashSet<u64>,
    /// All objects, contexts among them.
    pub all: FxHashSet<u64>,
}

/// A place that leads to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The place.
    pub root: Root,
    /// How many heap blocks lie between the two; 0 where the address lies in the place itself.
    pub blocks: u32,
}

/// A place where a program's own data begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its kind.
    pub kind: RootKind,
    /// The variable: `optim::STATE`; for a stack, the function of the frame.
    pub name: Option<String>,
    /// The thread that it belongs to: `worker-3`; none for a static.
    pub thread: Option<String>,
    /// The library that it lies in; none for the program itself.
    pub module: Option<String>,
}

/// The kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// A static.
    Static,
    /// A thread-local.
    ThreadLocal,
    /// A stack.
    Stack,
}

/// A row of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be written to.
    pub writable: bool,
    /// Whether code in it can run.
    pub executable: bool,
    /// Where in its file it begins.
    pub offset: u64,
    /// The file that it was mapped from.
    pub file: Option<&'a Path>,
    /// The name in the row: a path, the kernel's word for what is no file (`[heap]`), or nothing.
    pub name: &'a str,
}

/// A thread that waits in a system call, as the kernel describes it.
#[derive(Clone, Copy, Debug)]
pub struct WaitingThread {
    /// Where its system call returns to.
    pub instruction: u64,
    /// Its stack pointer.
    pub stack_pointer: u64,
    /// Where its stack ends.
    pub end: u64,
}

/// The return addresses on a stack, as far as an unwinder found them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReturnAddresses {
    /// The place of each on the stack, and the address, innermost first.
    pub found: Vec<(u64, u64)>,
    /// Whether they lead to the thread's first function.
    pub complete: bool,
}

/// What the search has to be told about the program in which it runs.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// What is mapped, by address.
    pub mappings: &'a [Mapping<'a>],
    /// Whose a name is.
    pub names: NameRules,
    /// The thread that waits for the search, by its number in `/proc/self/task`.
    pub asking_thread: u32,
    /// The place of each return address on that thread's stack, and the address, innermost first.
    pub asking_stack: &'a [(u64, u64)],
    /// Walks the stack of a waiting thread; the function given to it reads a word of memory.
    pub waiting_stack: fn(WaitingThread, &mut dyn FnMut(u64) -> Option<u64>) -> ReturnAddresses,
}

/// Whose a library, a function or a variable is, by its name.
#[derive(Clone, Copy, Debug)]
pub struct NameRules {
    /// Whether a library of this file name is the GPU vendor's, whose tables hold every address.
    pub is_vendor_library: fn(&str) -> bool,
    /// Whether a function of this name is the GPU vendor's.
    pub is_vendor_function: fn(&str) -> bool,
    /// Whether the program's author does not know what is inside a library of this file name.
    pub is_known_library: fn(&str) -> bool,
    /// Whether a library at this path came with the system.
    pub is_in_a_system_folder: fn(&Path) -> bool,
    /// A symbol's name as its author wrote it.
    pub as_written: fn(&str) -> String,
}

/// For each of `groups` groups of targets the nearest places that lead to one of them; none where the
/// search, which ends after `time`, did not see everything and found nothing. The calling thread is left
/// out: it is to be one of the caller's own, with some hundred kilobytes of stack.
#[must_use]
pub fn find(
    targets: Vec<Target>,
    groups: usize,
    objects: DriverObjects,
    program: Program<'_>,
    time: Duration,
) -> Vec<Option<Vec<Holder>>> {
    glibc::find(targets, groups, objects, program, time).unwrap_or_else(|| vec![None; groups])
}
