//! Finds the places in a program that still refer to a leaked resource.
//!
//! The search works like a conservative garbage collector: starting from the program's own statics,
//! thread-locals and stacks, it follows every word that may be the address of a heap block, and
//! returns the place nearest to the address or handle that it searches for. The result is advice
//! for fixing a leak, not a verdict: a copy of an address need not be in use.
//!
//! Memory is read through the kernel and never by dereferencing, for a bounded time and up to a
//! bounded size. The search knows how glibc lays out the heap and the stacks; on other systems it
//! finds nothing.
//!
//! [`gpu-leak-check`](https://docs.rs/gpu-leak-check) calls this crate when a check fails, and
//! describes the program to it. The two crates are released together, and this interface may change
//! in any release.

#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")),
    path = "elsewhere.rs"
)]
mod glibc;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rustc_hash::FxHashSet;

pub use self::glibc::{enclosing, find, words_with};

/// The largest number of blocks that may lie between a target and a place for the place to be
/// reported.
const DEEPEST: u32 = 6;
/// The largest number of places that are listed for one group.
const NAMED: usize = 2;

/// The largest number of bytes that one search reads, no matter how long its time limit is.
const MAX_BYTES_READ: u64 = 512 << 20;
/// The size of a page, the unit in which memory is mapped.
const PAGE: u64 = 4096;

/// An address with all bits inverted. The search reads its own memory as well, because allocators
/// reuse memory that another thread has freed. So the search's own memory must not contain the
/// addresses that it searches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hidden(u64);

impl Hidden {
    /// Hides an address.
    pub const fn of(address: u64) -> Self {
        Self(!address)
    }

    /// Returns the hidden address.
    pub const fn address(self) -> u64 {
        !self.0
    }
}

/// An address or handle to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The first value that refers to the target.
    pub first: Hidden,
    /// How many values refer to the target: for memory, every address inside it; for an object,
    /// only its handle.
    pub values: u64,
    /// The index of the target's group.
    pub group: usize,
}

impl Target {
    /// Returns the values that refer to the target.
    pub const fn range(&self) -> Range<u64> {
        let first = self.first.address();
        first..first.saturating_add(self.values)
    }
}

/// The known objects of the GPU driver, by their handles. These handles are addresses of the
/// driver's own heap blocks.
#[derive(Clone, Debug, Default)]
pub struct DriverObjects {
    /// The contexts. If an object belongs to a context, the object's heap blocks point to that
    /// context.
    pub contexts: FxHashSet<Hidden>,
    /// All objects, including contexts.
    pub all: BTreeSet<Hidden>,
    /// The addresses of the driver's functions that the program has looked up and may keep in its
    /// own blocks.
    pub functions: FxHashSet<u64>,
}

/// A place that refers to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The place.
    pub root: Root,
    /// The number of heap blocks between the place and the target; 0 if the place itself contains
    /// the address.
    pub blocks: u32,
    /// The addresses of these blocks, beginning with the block that the place points to.
    pub path: Vec<u64>,
    /// For each function in the static's crate that uses the static, the address after an
    /// instruction that uses it. Empty if no such instruction is known; `None` if there was no time
    /// to look.
    pub used_at: Option<Vec<u64>>,
    /// The return addresses of the thread to which the place belongs, innermost first, if that
    /// thread waits for something other than the search; empty if they are not all known.
    pub waits_at: Vec<u64>,
}

/// Why the references to a target are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The search could not be completed within this time limit.
    OutOfTime(Duration),
    /// The target has no address or handle, or its value could just as well be an ordinary number.
    NotSought,
    /// There is more memory to search than the limit allows.
    TooMuch,
    /// Some memory cannot be read, or its allocator is not glibc's.
    Unreadable,
    /// The target is referenced only from memory that belongs to no known variable, or only through
    /// too many blocks.
    Unnamed,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfTime(time) => {
                write!(f, "the search did not finish within {time:?}")
            }
            Self::NotSought => {
                f.write_str("the search supports only addresses and handles of 2³² or more")
            }
            Self::TooMuch => write!(
                f,
                "there is more than {} MiB to search",
                MAX_BYTES_READ >> 20
            ),
            Self::Unreadable => f.write_str("some memory could not be searched"),
            Self::Unnamed => write!(
                f,
                "it is referenced only from memory that belongs to no known variable, or through more \
                 than {DEEPEST} heap blocks"
            ),
        }
    }
}

/// The places that refer to a target. An empty list means that there are none.
pub type Answer = Result<Vec<Holder>, Unknown>;

/// Heap blocks from which a target is reachable, although the blocks are not reachable from any
/// place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enclosing {
    /// The addresses of the blocks: the first contains the target, and each of the others points to
    /// the one before it.
    pub blocks: Vec<u64>,
    /// Whether the first block points to the last, so that the blocks keep one another alive.
    pub is_cycle: bool,
}

/// A place from which data of the program is reachable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The kind of place.
    pub kind: RootKind,
    /// The variable, such as `optim::STATE`; for a stack, the function of the frame.
    pub name: Option<String>,
    /// The name of the thread to which the place belongs, such as `worker-3`; `None` for a static.
    /// Only the first 15 bytes of a thread's name are known.
    pub thread: Option<String>,
    /// The thread's id in `/proc/self/task`.
    pub thread_id: Option<u32>,
    /// The library that contains the place; `None` for the program itself.
    pub module: Option<String>,
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// A static.
    Static,
    /// A thread-local.
    ThreadLocal,
    /// A stack.
    Stack,
}

/// A line of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// The page numbers of the mapping. Addresses are not stored, because leaked memory may begin
    /// where a mapping does, and the search's own lists must not contain the address of leaked
    /// memory.
    pub pages: Range<u64>,
    /// Whether the memory can be read.
    pub readable: bool,
    /// Whether the memory can be written to.
    pub writable: bool,
    /// Whether code in the mapping can run.
    pub executable: bool,
    /// The offset in the file at which the mapping begins.
    pub offset: u64,
    /// The file that was mapped, if there is one.
    pub file: Option<&'a Path>,
    /// The name in the line: a path, a name that the kernel gives to other mappings (`[heap]`), or
    /// nothing.
    pub name: &'a str,
}

impl Mapping<'_> {
    /// Returns the addresses of the mapping.
    pub const fn addresses(&self) -> Range<u64> {
        self.pages.start * PAGE..self.pages.end * PAGE
    }
}

/// What the kernel says about a thread that waits in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitingThread {
    /// The address to which the system call returns.
    pub instruction: u64,
    /// The stack pointer of the thread.
    pub stack_pointer: u64,
    /// The address at which the stack ends.
    pub end: u64,
}

/// The return addresses on a stack, as far as an unwinder could find them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReturnAddresses {
    /// The stack slot and the value of each return address, innermost first.
    pub found: Vec<(u64, u64)>,
    /// Whether the addresses reach back to the thread's first function.
    pub complete: bool,
}

/// What the search needs to know about the current program.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The mappings, by address.
    pub mappings: &'a [Mapping<'a>],
    /// How names are classified.
    pub names: NameRules,
    /// The thread pointer of the program's first thread, if it is known.
    pub first_thread: Option<u64>,
    /// The stack slot and the value of each return address on the stack of the calling thread,
    /// innermost first. The search starts at the first of these slots, so what the search itself
    /// keeps on the stack is not found.
    pub own_stack: &'a [(u64, u64)],
    /// Whether a driver has started the thread with this id for itself. What lies on the stack of
    /// such a thread beyond the last known frame belongs to the driver.
    pub is_drivers_thread: fn(u32) -> bool,
    /// The addresses of words in statics that belong to the program's allocators. Such a static is
    /// not reported as a holder.
    pub allocators_words: &'a [u64],
    /// Walks the stack of a waiting thread. The function that is passed in reads a word of memory.
    pub waiting_stack: fn(WaitingThread, &mut dyn FnMut(u64) -> Option<u64>) -> ReturnAddresses,
}

/// Reads libraries, and classifies them, their functions and their variables by name.
#[derive(Clone, Copy, Debug)]
pub struct NameRules {
    /// Returns the contents of a file, which are mapped for the life of the process.
    pub file: fn(&Path) -> Option<&'static [u8]>,
    /// Whether a library with this file name belongs to the GPU vendor. The tables of such
    /// libraries contain every address.
    pub is_vendor_library: fn(&str) -> bool,
    /// Whether a function with this name belongs to the GPU vendor.
    pub is_vendor_function: fn(&str) -> bool,
    /// Whether the program's author does not know the internals of a library with this file name.
    pub is_known_library: fn(&str) -> bool,
    /// Whether a library at this path belongs to the system.
    pub is_in_a_system_directory: fn(&Path) -> bool,
    /// Returns a symbol's name as its author wrote it.
    pub as_written: fn(&str) -> String,
}

/// Returns the nearest places without duplicates, at most two of them. Statics and thread-locals
/// come before stacks.
pub fn nearest(mut found: Vec<Holder>) -> Vec<Holder> {
    found.sort_by_key(|holder| (holder.root.kind == RootKind::Stack, holder.blocks));
    let mut nearest: Vec<Holder> = Vec::new();
    for holder in found {
        if nearest.len() < NAMED && nearest.iter().all(|other| other.root != holder.root) {
            nearest.push(holder);
        }
    }
    nearest
}
