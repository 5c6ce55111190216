//! The tables of this process, and what is handed out in place of a function.
//!
//! Several tables may have the same function: those of harnesses in the program, in a plugin, in a
//! preloaded library. What is handed out is the wrapper of the first table. Its slot leads to the
//! wrapper of the next one, and the last one's to the function. So a table that comes later hears
//! what goes through pointers that were handed out before it came.
//!
//! A process may have several functions of one name: a tool such as ncu puts its own before the driver's,
//! and programs come to both. So a table may have several rows of a name. A function is handed out as the
//! wrapper of the first of them whose slot leads to it, or is empty.
#![expect(
    unsafe_code,
    reason = "tables are kept as pointers, and read without a lock"
)]

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{ptr, slice};

use crate::dlsym::{self, Dlsym};
use crate::flagging;
use crate::interface::{Registration, Trampolines, WatchedFunction};

/// A table, its rows in the order of their names.
struct Table {
    registration: &'static Registration,
    rows: Vec<(&'static [u8], &'static WatchedFunction)>,
}

impl Table {
    fn of(registration: &'static Registration) -> Self {
        // SAFETY: made of a static slice by `Registration::new`.
        let rows = unsafe { slice::from_raw_parts(registration.functions, registration.count) };
        let mut rows: Vec<_> = rows.iter().map(|row| (name_of(row), row)).collect();
        // Rows of one name stay in their order.
        rows.sort_by_key(|(name, _)| *name);
        Self { registration, rows }
    }

    /// The rows of this name.
    fn named(&self, name: &[u8]) -> impl Iterator<Item = &'static WatchedFunction> {
        let from = self.rows.partition_point(|(other, _)| *other < name);
        let rows = self.rows.get(from..).unwrap_or_default().iter();
        rows.take_while(move |(other, _)| *other == name)
            .map(|(_, row)| *row)
    }

    /// The wrapper of the first row of this name whose slot leads to `target`, which forwards to `real`
    /// or is it; none where all lead elsewhere. The name itself where no row has a wrapper.
    fn lead_to(&self, name: &[u8], target: *const (), real: *const ()) -> Option<*const ()> {
        let mut rows = self.named(name);
        rows.find_map(|row| match row.slot() {
            Some(slot) => slot.fill(target, real).then_some(row.wrapper),
            None => Some(target),
        })
    }

    /// The rows of `base` and of its variants: `cuMemAlloc`, `cuMemAlloc_v2`.
    fn variants(&self, base: &[u8]) -> impl Iterator<Item = &'static WatchedFunction> {
        let from = self.rows.partition_point(|(other, _)| *other < base);
        let rows = self.rows.get(from..).unwrap_or_default().iter();
        rows.take_while(move |(name, _)| name.starts_with(base))
            .filter(move |(name, _)| matches!(name.get(base.len()), None | Some(b'_')))
            .map(|(_, row)| *row)
    }
}

fn name_of(row: &WatchedFunction) -> &'static [u8] {
    // SAFETY: made of a static C string by `WatchedFunction::new`.
    unsafe { CStr::from_ptr(row.name) }.to_bytes()
}

/// The name without what tells variants apart.
fn base_of(name: &[u8]) -> &[u8] {
    name.split(|letter| *letter == b'_').next().unwrap_or(name)
}

/// In the order in which they were registered. None is ever taken out, and no list is ever freed.
static TABLES: AtomicPtr<Vec<&Table>> = AtomicPtr::new(ptr::null_mut());

fn tables() -> impl DoubleEndedIterator<Item = &'static Table> {
    // SAFETY: null, or leaked by `register`.
    let tables = unsafe { TABLES.load(Ordering::Acquire).as_ref() };
    tables.into_iter().flatten().copied()
}

/// How many there are.
pub(crate) fn count() -> usize {
    tables().count()
}

/// Takes a table in; not one of a sort that is not known here.
pub(crate) fn register(registration: &'static Registration) -> bool {
    static REGISTERING: Mutex<()> = Mutex::new(());

    if registration.size < size_of::<Registration>() {
        return false;
    }
    let table: &Table = Box::leak(Box::new(Table::of(registration)));
    let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    let earlier: Vec<_> = tables().collect();
    let all = Box::new(tables().chain([table]).collect());
    TABLES.store(Box::into_raw(all), Ordering::Release);
    for rows in table.rows.chunk_by(|(name, _), (other, _)| name == other) {
        let name = rows[0].0;
        // The functions behind those that were handed out: the last of the tables holds them.
        let last = earlier
            .iter()
            .rev()
            .find(|table| table.named(name).any(|row| row.slot().is_some()));
        let holders = last.into_iter().flat_map(|last| last.named(name));
        for holder in holders.filter_map(WatchedFunction::slot) {
            let real = holder.get();
            if !real.is_null()
                && let Some(wrapper) = table.lead_to(name, real, real)
            {
                holder.fill(wrapper, real);
            }
        }
    }
    // Those that found no wrapper look again.
    trampolines().for_each(Trampolines::reset);
    true
}

/// Whether a table has `name`, or a variant of it.
pub(crate) fn is_wanted(name: &CStr) -> bool {
    let name = name.to_bytes();
    tables().any(|table| table.variants(base_of(name)).next().is_some())
}

/// What to hand out for the function of this name: the wrapper that forwards to exactly it.
pub(crate) fn by_name(name: &CStr, real: *const ()) -> *const () {
    let bytes = name.to_bytes();
    let found = || tables().flat_map(|table| table.named(bytes));
    let is_ours = found().any(|row| row.wrapper == real)
        || flagging::is_thunk(real)
        || behind_trampolines(real.cast_mut().cast()).is_some();
    if is_ours {
        return real;
    }
    // Not collected: a table that is registered by one of these is asked next.
    for table in tables().filter(|table| table.named(bytes).next().is_some()) {
        if let Some(on_lookup) = table.registration.on_lookup {
            // SAFETY: it is given the name and the function that it is to be told of.
            unsafe { on_lookup(name.as_ptr(), real.cast()) };
        }
    }
    // A variant that no table has: else nobody would ask about this name.
    let mut is_unknown = found().next().is_none() && is_wanted(name);
    let mut target = real;
    for table in tables()
        .rev()
        .filter(|table| table.named(bytes).next().is_some())
    {
        match table.lead_to(bytes, target, real) {
            Some(wrapper) => target = wrapper,
            // All lead to other functions of this name, of other libraries.
            None => is_unknown = true,
        }
    }
    if target != real || is_unknown {
        keep_loaded(real);
    }
    if is_unknown {
        flagging::thunk(name, real)
    } else {
        target
    }
}

/// The same where `name` may stand for several functions: it is the one that is exported at the
/// address; else, if none is, that of the name `fallback`.
pub(crate) fn by_address(name: &CStr, real: *const (), fallback: Option<&CStr>) -> *const () {
    let base = base_of(name.to_bytes());
    let object = dlsym::object_of(real.cast());
    if is_wanted(name) {
        // And opened with that, so that it can be searched.
        keep_loaded(real);
    }
    let is_exported = |row: &&WatchedFunction| {
        let handle = object.map_or(ptr::null_mut(), |map| map.cast_mut().cast());
        // SAFETY: the handle is that of a loaded object; the name is a C string.
        let address = unsafe { dlsym::next()(handle, row.name) };
        address.cast_const().cast() == real
    };
    let mut rows = tables().flat_map(|table| table.variants(base));
    let row = rows.find(is_exported);
    // SAFETY: the name of a row is a C string.
    let found = row.map(|row| unsafe { CStr::from_ptr(row.name) });
    // What the search for variants has left behind is none of the caller's.
    // SAFETY: takes the message of this thread, and nothing keeps it.
    unsafe { libc::dlerror() };
    match found.or(fallback) {
        Some(found) => by_name(found, real),
        // A variant that no table has, if tables have others.
        None if is_wanted(name) && !flagging::is_thunk(real) && !is_a_wrapper(real) => {
            keep_loaded(real);
            flagging::thunk(name, real)
        }
        None => real,
    }
}

fn is_a_wrapper(function: *const ()) -> bool {
    let mut rows = tables().flat_map(|table| &table.rows);
    rows.any(|(_, row)| row.wrapper == function)
}

/// If a preloaded library's trampoline was found, not the driver's function: how to look
/// behind that library.
pub(crate) fn behind_trampolines(found: *mut c_void) -> Option<Dlsym> {
    let mut trampolines = trampolines().filter(|trampolines| trampolines.include(found));
    trampolines.next().map(|trampolines| trampolines.next)
}

fn trampolines() -> impl Iterator<Item = &'static Trampolines> {
    // SAFETY: null, or made of a static reference.
    tables().filter_map(|table| unsafe { table.registration.trampolines.as_ref() })
}

/// Has the library of this function stay loaded: the address is kept for as long as the process lives.
pub(crate) fn keep_loaded(function: *const ()) {
    static KEPT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    let Some(object) = dlsym::object_of(function.cast()) else {
        return;
    };
    if KEPT.swap(object.cast_mut().cast(), Ordering::Relaxed) != object.cast_mut().cast() {
        // SAFETY: the object has the function, so it is loaded, and its name is a C string.
        unsafe {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            if libc::dlopen((*object).name, flags).is_null() {
                libc::dlerror();
            }
        }
    }
}
