//! The tables of this process, and the addresses that are handed out in place of functions.
//!
//! Several tables may contain the same function: for example those of harnesses in the program, in
//! a plugin and in a preloaded library. The wrapper of the first table is handed out. Its slot
//! contains the wrapper of the next table, and the slot of the last table contains the function. So
//! a table that is registered later also intercepts calls through pointers that were handed out
//! earlier.
//!
//! A process may have several functions with the same name. For example, a tool such as ncu puts
//! its own function in front of the driver's, and programs use both. So a table may have several
//! rows for a name. The wrapper handed out for a function belongs to the first row whose slot leads
//! to the function or is empty.
#![expect(
    unsafe_code,
    reason = "stores tables as pointers and reads them without a lock"
)]

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{ptr, slice};

use super::next::{self, Dlsym};
use super::objects::{LinkMap, is_variable, object_of};
use super::thunks;
use crate::interface::{Registration, Slot, Trampolines, WatchedFunction};
use crate::loader::symbol_of;

/// A table with its rows sorted by name.
pub(crate) struct Table {
    registration: &'static Registration,
    rows: Vec<Row>,
}

type Row = (&'static [u8], &'static WatchedFunction);

impl Table {
    fn of(registration: &'static Registration) -> Self {
        // SAFETY: the pointer and the count come from a static slice in `Registration::new`.
        let rows = unsafe { slice::from_raw_parts(registration.functions, registration.count) };
        let mut rows: Vec<_> = rows.iter().map(|row| (name_of(row), row)).collect();
        // The sort is stable, so rows with the same name keep their order.
        rows.sort_by_key(|(name, _)| *name);
        Self { registration, rows }
    }

    fn named(&self, name: &[u8]) -> impl Iterator<Item = &'static WatchedFunction> {
        let rows = self.rows_from(name);
        rows.take_while(move |(other, _)| *other == name)
            .map(|(_, row)| *row)
    }

    /// Returns the rows with this name, and all rows whose names sort after it.
    fn rows_from(&self, name: &[u8]) -> slice::Iter<'_, Row> {
        let from = self.rows.partition_point(|(other, _)| *other < name);
        self.rows[from..].iter()
    }

    /// Returns the wrapper of the first row with this name whose slot contains `target`, or can be
    /// changed to contain it. `target` is `real` or forwards to it. Returns `target` if a row
    /// without a wrapper comes first, and `None` if all slots contain something else.
    fn lead_to(&self, name: &[u8], target: *const (), real: *const ()) -> Option<*const ()> {
        let mut rows = self.named(name);
        rows.find_map(|row| match row.slot() {
            Some(slot) => fill(slot, target, real).then_some(row.wrapper),
            None => Some(target),
        })
    }

    /// Returns the rows of `base` and of its variants, such as `cuMemAlloc` and `cuMemAlloc_v2`.
    fn variants(&self, base: &[u8]) -> impl Iterator<Item = &'static WatchedFunction> {
        let rows = self.rows_from(base);
        rows.take_while(move |(name, _)| name.starts_with(base))
            .filter(move |(name, _)| matches!(name.get(base.len()), None | Some(b'_')))
            .map(|(_, row)| *row)
    }
}

/// Stores `target`, which is `real` or forwards to it, unless the slot holds something that does
/// not forward to `real`. Returns whether the slot now holds `target`.
fn fill(Slot(content): &Slot, target: *const (), real: *const ()) -> bool {
    let may_be = |before: *mut ()| {
        (before.is_null() || before.cast_const() == real).then_some(target.cast_mut())
    };
    let put = content.fetch_update(Ordering::AcqRel, Ordering::Relaxed, may_be);
    put.is_ok() || put == Err(target.cast_mut())
}

fn name_of(row: &WatchedFunction) -> &'static [u8] {
    // SAFETY: the pointer comes from a static C string in `WatchedFunction::new`.
    unsafe { CStr::from_ptr(row.name) }.to_bytes()
}

/// Returns the name without the suffix of its variant.
fn base_of(name: &[u8]) -> &[u8] {
    name.split(|letter| *letter == b'_').next().unwrap_or(name)
}

/// The tables in order of registration. None is ever removed, and no list is ever freed.
static TABLES: AtomicPtr<Vec<&Table>> = AtomicPtr::new(ptr::null_mut());

pub(crate) fn tables() -> impl DoubleEndedIterator<Item = &'static Table> {
    // SAFETY: the pointer is null or was leaked by `register`.
    let tables = unsafe { TABLES.load(Ordering::Acquire).as_ref() };
    tables.into_iter().flatten().copied()
}

/// Adds a table. Returns false if this version does not know this kind of table.
pub(crate) fn register(registration: &'static Registration) -> bool {
    static REGISTERING: Mutex<()> = Mutex::new(());

    if registration.size < Registration::FIRST_SIZE {
        return false;
    }
    let table: &Table = Box::leak(Box::new(Table::of(registration)));
    let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    let all = Box::new(tables().chain([table]).collect());
    TABLES.store(Box::into_raw(all), Ordering::Release);
    for rows in table.rows.chunk_by(|(name, _), (other, _)| name == other) {
        let name = rows[0].0;
        // The slots of the last of the earlier tables hold the functions behind the wrappers that
        // were handed out.
        let is_watched = |table: &&Table| table.named(name).any(|row| row.slot().is_some());
        let last = tables().rev().skip(1).find(is_watched);
        let holders = last.into_iter().flat_map(|last| last.named(name));
        for holder in holders.filter_map(WatchedFunction::slot) {
            let real = holder.get();
            if !real.is_null()
                && let Some(wrapper) = table.lead_to(name, real, real)
            {
                fill(holder, wrapper, real);
            }
        }
    }
    // Each trampoline searches again, because it may have found no wrapper before.
    trampolines().for_each(Trampolines::reset);
    true
}

/// Calls the callbacks for `dlclose`.
pub(crate) fn on_close(has_unloaded: bool) {
    for on_close in tables().filter_map(|table| table.registration.on_close()) {
        on_close(has_unloaded);
    }
}

/// Whether a table contains `name` or a variant of it.
pub(crate) fn is_wanted(name: &CStr) -> bool {
    let name = name.to_bytes();
    tables().any(|table| table.variants(base_of(name)).next().is_some())
}

/// Returns the address to hand out for the function with this name: the wrapper that forwards to
/// exactly this function.
pub(crate) fn by_name(name: &CStr, real: *const ()) -> *const () {
    let bytes = name.to_bytes();
    let having = || tables().filter(|table| table.named(bytes).next().is_some());
    if is_ours(real) || is_variable(real.cast()) {
        return real;
    }
    // The tables are not collected first, so that a table that a callback registers is also
    // searched.
    for table in having() {
        if let Some(on_lookup) = table.registration.on_lookup {
            // SAFETY: the callback gets a C string and the function with this name, as documented.
            unsafe { on_lookup(name.as_ptr(), real.cast()) };
        }
    }
    // If a table has another variant of the name, but no table has the name itself, this is an
    // unknown variant.
    let mut is_unknown = having().next().is_none() && is_wanted(name);
    let mut target = real;
    for table in having().rev() {
        match table.lead_to(bytes, target, real) {
            Some(wrapper) => target = wrapper,
            // Every row with this name already forwards to a function of the same name in another
            // library.
            None => is_unknown = true,
        }
    }
    if target != real || is_unknown {
        keep_loaded(real);
        if is_only_for_others(bytes) {
            provides(real);
        }
    }
    if is_unknown {
        thunks::thunk(name, real)
    } else {
        target
    }
}

/// Returns the address to hand out for `real` if `name` may refer to several functions. This is the
/// result of [`by_name`] for the name under which the library exports `real` or, if there is none,
/// for the name `fallback`.
pub(crate) fn by_address(name: &CStr, real: *const (), fallback: Option<&CStr>) -> *const () {
    if !is_wanted(name) || is_ours(real) {
        return real;
    }
    // This also opens the library, so that its symbols can be searched.
    keep_loaded(real);
    let base = base_of(name.to_bytes());
    let object = object_of(real.cast()).unwrap_or(ptr::null());
    let is_exported = |row: &&WatchedFunction| {
        // SAFETY: the handle belongs to a loaded object, and the name is a C string.
        let address = unsafe { next::dlsym()(object.cast_mut().cast(), row.name) };
        address.cast_const().cast() == real
    };
    // A name that has no variants needs no search.
    let variants = || tables().flat_map(|table| table.variants(base));
    if fallback == Some(name) && variants().all(|row| name_of(row) == name.to_bytes()) {
        return by_name(name, real);
    }
    let row = variants().find(is_exported);
    // SAFETY: the name of a row is a C string.
    let found = row.map(|row| unsafe { CStr::from_ptr(row.name) });
    // Errors that the search for variants left behind must not reach the caller. SAFETY: the call
    // takes this thread's message, to which nothing else refers.
    unsafe { libc::dlerror() };
    match found.or(fallback) {
        Some(found) => by_name(found, real),
        // No table has this variant, although tables have other variants.
        None => {
            // The requested name stands for all variants, so the name of the exported variant is
            // used if it is known.
            let exported = symbol_of(real.addr())
                .filter(|it| it.dli_saddr.cast_const() == real.cast() && !it.dli_sname.is_null())
                // SAFETY: the library stays loaded, and the name is a C string.
                .map(|it| unsafe { CStr::from_ptr(it.dli_sname) })
                .filter(|exported| base_of(exported.to_bytes()) == base);
            thunks::thunk(exported.unwrap_or(name), real)
        }
    }
}

/// Whether a table that contains this name is only for libraries other than those that provide its
/// functions.
fn is_only_for_others(name: &[u8]) -> bool {
    tables()
        .any(|table| table.registration.only_for_others != 0 && table.named(name).next().is_some())
}

/// The libraries that provide functions of such tables. A library is listed once one of these
/// functions has been handed out, and it stays loaded.
static PROVIDERS: [AtomicPtr<LinkMap>; 32] = [const { AtomicPtr::new(ptr::null_mut()) }; 32];

/// Records the library of a function as a provider. The program itself is not recorded, even if it
/// contains such a library.
fn provides(function: *const ()) {
    let Some(object) = object_of(function.cast()) else {
        return;
    };
    // SAFETY: the object contains the function, so it is loaded, and its name is a C string.
    if unsafe { CStr::from_ptr((*object).name) }.is_empty() {
        return;
    }
    let (none, object) = (ptr::null_mut(), object.cast_mut());
    let is_in = |provider: &AtomicPtr<LinkMap>| {
        let before = provider.compare_exchange(none, object, Ordering::Relaxed, Ordering::Relaxed);
        before.is_ok() || before == Err(object)
    };
    let _ = PROVIDERS.iter().any(is_in);
}

/// Whether a library that provides functions of such a table makes this look-up for itself. For
/// example, a loader looks up functions of layers and drivers, to which it passes on the calls to
/// its own functions.
pub(crate) fn is_for_itself(name: &CStr, caller: *const c_void) -> bool {
    is_only_for_others(name.to_bytes())
        && object_of(caller).is_some_and(|object| {
            let mut providers = PROVIDERS.iter().map(|it| it.load(Ordering::Relaxed));
            providers.any(|provider| provider.cast_const() == object)
        })
}

/// Whether this function is handed out in place of a driver's function.
fn is_ours(function: *const ()) -> bool {
    let mut rows = tables().flat_map(|table| &table.rows);
    rows.any(|(_, row)| row.wrapper == function)
        || thunks::is_thunk(function)
        || behind_trampolines(function.cast_mut().cast()).is_some()
}

/// If `found` is a trampoline of a preloaded library rather than the driver's function, returns the
/// function that looks up names after that library.
pub(crate) fn behind_trampolines(found: *mut c_void) -> Option<Dlsym> {
    let is_in = |it: &&Trampolines| object_of(found) == object_of(it.unresolved.cast());
    trampolines()
        .find(is_in)
        .map(|trampolines| trampolines.next)
}

fn trampolines() -> impl Iterator<Item = &'static Trampolines> {
    // SAFETY: the pointer is null or comes from a static reference.
    tables().filter_map(|table| unsafe { table.registration.trampolines.as_ref() })
}

/// Keeps the library of this function loaded, because the function's address is stored for the life
/// of the process.
pub(crate) fn keep_loaded(function: *const ()) {
    static KEPT: AtomicPtr<LinkMap> = AtomicPtr::new(ptr::null_mut());

    let Some(object) = object_of(function.cast()) else {
        return;
    };
    if KEPT.load(Ordering::Acquire) != object.cast_mut() {
        // SAFETY: the object contains the function, so it is loaded, and its name is a C string.
        unsafe {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            if libc::dlopen((*object).name, flags).is_null() {
                libc::dlerror();
            }
        }
        // Another thread that finds this value searches the object, so it must be open by then.
        KEPT.store(object.cast_mut(), Ordering::Release);
    }
}
