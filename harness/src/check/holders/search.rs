//! The search for the holders of leaks, as this program needs it: for how long a process searches,
//! what it searches for, and which statics belong to the program's allocators and hold nothing
//! themselves. `holders.rs` adds the results to the findings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gpu_leak_holders::{
    Answer, DriverObjects, Hidden, Mapping, NameRules, Program, Target, Unknown, find, words_with,
};
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::api::vulkan;
use crate::call_site::{as_written, libraries};
use crate::capture::{self, modules};
use crate::check::threads::is_drivers_thread;
use crate::device::start;
use crate::ledger::event::Space;
use crate::ledger::{self, Record};
use crate::recursion_guard::quiet;
use crate::sync::{Mutex, locked};
use crate::{loader, report};

/// Searches within `time` for the live records that have a group. Returns the holders of each of
/// the `groups`, and the groups that contain a record without an address; `None` if there is
/// nothing to search for.
pub(super) fn search(
    groups: usize,
    time: Duration,
    group: impl Fn(u64) -> Option<usize>,
) -> Option<(Vec<Answer>, FxHashSet<usize>)> {
    if time.is_zero() || groups == 0 {
        return None;
    }
    let _quiet = quiet();
    let found = ledger::live().select(|record| group(record.sequence).is_some());
    let mut without_address = FxHashSet::default();
    let mut targets: Vec<Target> = Vec::new();
    for record in &found {
        let group = group(record.sequence)?;
        match target(record, group) {
            Some(target) => targets.push(target),
            None => _ = without_address.insert(group),
        }
    }
    // If the harness's own memory contained a copy of an address, that memory would be reported as
    // a holder.
    drop(found);
    if targets.is_empty() {
        return Some((vec![Err(Unknown::NotSought); groups], without_address));
    }
    let maps = modules::read_maps();
    let mappings: Vec<_> = modules::mappings(&maps).map(mapping).collect();
    let program = Program {
        mappings: &mappings,
        names: NAMES,
        own_stack: &own_stack(),
        first_thread: start::first_thread(),
        is_drivers_thread,
        allocators_words: &allocators_words(),
        waiting_stack: capture::walk_waiting,
    };
    let found = find(targets, groups, objects(), program, time);
    Some((found, without_address))
}

/// Returns the value that refers to a record in memory. Returns `None` if the record's key is a
/// number that the ledger assigned or an offset in a device's own address space, or if the memory
/// belonged to the program before the driver knew of it.
pub(super) fn target(record: &Record, finding: usize) -> Option<Target> {
    let first = record.made.key.value();
    let bytes = match record.made.key.space {
        Space::DevicePointer | Space::HostPointer | Space::IpcPointer | Space::Observed(_) => {
            record.made.bytes.max(1)
        }
        Space::Handle(_) | Space::Object { .. } => 1,
        _ => return None,
    };
    Some(Target {
        first: Hidden::of(first),
        values: bytes,
        group: finding,
    })
}

/// Returns the driver's live objects.
fn objects() -> DriverObjects {
    let ledger = ledger::live();
    let is_handle = |record: &Record| {
        matches!(
            record.made.key.space,
            Space::Handle(_) | Space::Object { .. }
        )
    };
    let contexts = ledger.contexts.all().into_iter();
    let contexts = contexts.filter(|context| context.handle != 0);
    let mut objects = DriverObjects {
        contexts: contexts.map(|it| Hidden::of(it.handle)).collect(),
        functions: vulkan::functions_found(),
        ..DriverObjects::default()
    };
    objects.all.extend(&objects.contexts);
    let records = ledger.select(is_handle);
    let handles = records
        .iter()
        .map(|record| Hidden::of(record.made.key.value()));
    objects.all.extend(handles);
    // Physical devices are not in the ledger, because they are never created. Everything that
    // belongs to their instance is reachable from them.
    objects
        .all
        .extend(vulkan::handles().into_iter().map(Hidden::of));
    objects
}

const NAMES: NameRules = NameRules {
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    file: loader::mapped::file,
    #[cfg(not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )))]
    file: |_| None,
    is_vendor_library: report::is_cuda_library,
    is_vendor_function: report::is_cuda_function,
    is_known_library: libraries::is_known_library,
    is_in_a_system_directory: modules::is_in_a_system_directory,
    as_written,
};

fn mapping(mapping: modules::Mapping<'_>) -> Mapping<'_> {
    let pages = mapping.pages();
    Mapping {
        pages: pages.start as u64..pages.end as u64,
        readable: mapping.readable,
        writable: mapping.writable,
        executable: mapping.executable,
        offset: mapping.offset,
        file: mapping.file(),
        name: mapping.name,
    }
}

/// Returns the return addresses on the stack of this thread, each with its stack slot.
fn own_stack() -> Vec<(u64, u64)> {
    let mut returns = Vec::new();
    capture::trace(|stack, address, _| {
        // An unwinder that does not know the stack pointer returns 0.
        if stack != 0 {
            returns.push(((stack as u64).saturating_sub(8), address as u64));
        }
        true
    });
    returns
}

/// All searches of a process together may take this many times as long as a single search.
const SEARCHES: u32 = 50;

/// The time that searches have taken so far, in nanoseconds.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A search in progress. The time of all searches is limited, because a program may have a thousand
/// scopes that leak, and an unoptimised search in a large heap takes all the time that it is given.
pub(super) struct Searching(Instant);

impl Searching {
    /// Begins a search that may take `time`.
    ///
    /// # Errors
    /// If earlier searches took too long, returns why nothing is searched for.
    pub(super) fn begin(time: Duration) -> Result<Self, String> {
        let limit = time.saturating_mul(SEARCHES);
        match Duration::from_nanos(TAKEN.load(Ordering::Relaxed)) < limit || limit.is_zero() {
            true => Ok(Self(Instant::now())),
            false => Err(format!(
                "the searches in this process took more than {limit:?}"
            )),
        }
    }
}

impl Drop for Searching {
    fn drop(&mut self) {
        let taken = self.0.elapsed().as_nanos() as u64;
        TAKEN.fetch_add(taken, Ordering::Relaxed);
    }
}

static ALLOCATORS_STATICS: Mutex<AllocatorsStatics> = Mutex::new(AllocatorsStatics {
    seen: FxHashSet::with_hasher(FxBuildHasher),
    left: Duration::from_millis(100),
    words: Vec::new(),
});

/// Statics that belong to the program's own allocators. From such a static, all of an allocator's
/// blocks are reachable, even those that nothing else refers to.
///
/// When an allocator reports a block for the first time, the program does not know the block's
/// address yet. So if a static already contains this address, the static belongs to the allocator:
/// it is, for example, a pointer to the beginning of the allocator's arena.
struct AllocatorsStatics {
    /// The addresses that were reported earlier. Statics may contain old copies of them.
    seen: FxHashSet<u64>,
    /// For how much longer statics may be read.
    left: Duration,
    /// The addresses of the words in which the address of a new block was found.
    words: Vec<u64>,
}

/// Records that an allocator reports a block at `address`.
pub(in crate::check) fn reported_by_allocator(address: u64) {
    let mut statics = locked(&ALLOCATORS_STATICS);
    if statics.left.is_zero() || !statics.seen.insert(address) {
        return;
    }
    let began = Instant::now();
    let found = words_with(address, &loader::writable_parts(), statics.left);
    statics.words.extend(found);
    statics.left = statics.left.saturating_sub(began.elapsed());
}

/// Returns the addresses of the words in which the address of a new block was found.
fn allocators_words() -> Vec<u64> {
    locked(&ALLOCATORS_STATICS).words.clone()
}
