//! Finds and rebinds relocations that bind `dlsym`, or a function of a table, to something other
//! than our definition. Such relocations are in objects that are linked to a driver and in objects
//! that were loaded with their own symbols first. If our `dlsym` is not the first in the process's
//! lookup order, every object may contain them.
#![expect(
    unsafe_code,
    reason = "reads memory that the loader mapped, and writes to the loader's tables"
)]

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::objects::{self, Object, Relocation, object_of, own_object};
use super::{next, registry};
use crate::loader::object_changes;

/// The bindings that have been found so far, and what has been examined.
struct State {
    /// How many objects have been loaded and unloaded, and how many tables registered. As long as
    /// these counts are unchanged, all bindings are unchanged too.
    counts: (u64, u64, usize),
    /// The objects whose relocations have been examined, by the addresses of their dynamic
    /// sections.
    scanned: Vec<usize>,
    found: Vec<Found>,
    /// How many bindings have been recorded.
    now: usize,
}

/// A binding that bypassed us.
struct Found {
    library: CString,
    symbol: CString,
    rebound: bool,
    /// The value of [`State::now`] when the binding was recorded.
    at: usize,
}

impl State {
    /// Records that only these objects are loaded. A binding of any other object can no longer be
    /// used, so it counts as rebound.
    fn keep_loaded(&mut self, objects: &[Object]) {
        for found in &mut self.found {
            found.rebound |= !objects.iter().any(|object| object.name == found.library);
        }
    }
}

static STATE: Mutex<State> = Mutex::new(State {
    counts: (0, 0, 0),
    scanned: Vec::new(),
    found: Vec::new(),
    now: 0,
});

/// Returns the state. The loader must not be called while the state is locked, because the loader
/// has its own locks and calls constructors while holding them.
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rebinds relocations in new libraries. Those of `dlsym` are rebound to `ours`. Reports each
/// binding that was found after `since` or could not be rebound: the library, the symbol and
/// whether it was rebound.
pub(crate) fn past_us(
    ours: *const c_void,
    since: usize,
    each: impl Fn(&CStr, &CStr, u64),
) -> usize {
    let (loaded, unloaded) = object_changes();
    let counts = (loaded, unloaded, registry::tables().count());
    if state().counts != counts {
        rebind(ours, counts);
    }
    let state = state();
    for found in &state.found {
        if found.at > since || !found.rebound {
            each(&found.library, &found.symbol, found.rebound.into());
        }
    }
    state.now
}

/// Must be called after a `dlclose` that unloaded an object. `before` says how many objects had
/// been loaded and unloaded before the call. If nothing else has changed since the last scan, the
/// objects that stayed are not scanned again.
pub(crate) fn unloaded_since(before: (u64, u64)) {
    let (now, objects) = objects::loaded();
    // In a forked child, the lock may be held by a thread that does not exist there.
    let Ok(mut state) = STATE.try_lock() else {
        return;
    };
    let scanned = (state.counts.0, state.counts.1);
    if scanned == before && now.0 == before.0 {
        state.counts.1 = now.1;
        let is_loaded = |it: &usize| objects.iter().any(|object| object.dynamic == *it);
        state.scanned.retain(is_loaded);
        state.keep_loaded(&objects);
    }
}

fn rebind(ours: *const c_void, counts: (u64, u64, usize)) {
    let (_, objects) = objects::loaded();
    let scanned = {
        let mut state = state();
        if (state.counts.1, state.counts.2) != (counts.1, counts.2) {
            // Another object may have been loaded at the same address, or more names may be wanted.
            state.scanned.clear();
            state.keep_loaded(&objects);
        }
        state.scanned.clone()
    };
    for object in &objects {
        if !scanned.contains(&object.dynamic) {
            object.while_loaded(|handle| {
                let is_wanted = |name: &CStr| name == c"dlsym" || registry::is_wanted(name);
                // The program and the library that contains this code are examined in full: other
                // libraries may use addresses that the program provides, and the library that
                // contains this code also contains a `dlsym`.
                let wholly = object.name.is_empty() || ptr::eq(own_object(), handle.cast());
                object.relocations(wholly, is_wanted, |it| examine(object, handle, it, ours));
            });
        }
    }
    let mut state = state();
    state.scanned = objects.iter().map(|object| object.dynamic).collect();
    state.counts = counts;
}

/// Examines one relocation, and rebinds it if it bypasses us.
fn examine(object: &Object, handle: *mut c_void, relocation: &Relocation<'_>, ours: *const c_void) {
    let symbol = relocation.symbol;
    let is_dlsym = symbol == c"dlsym";
    // SAFETY: the object is loaded, so the word is mapped, and it holds an address that the loader
    // stores there.
    let entry = unsafe { AtomicPtr::from_ptr(relocation.place) };
    let bound = entry.load(Ordering::Relaxed);
    // If an object defines a symbol, it may bind the symbol to its own definition.
    let is_ours = is_dlsym || relocation.is_undefined && registry::is_wanted(symbol);
    if !is_ours || bound.is_null() {
        return;
    }
    // If the entry still points to the code that binds it at the first call, the function has not
    // been called yet.
    let is_unbound =
        relocation.is_undefined && object_of(bound) == Some(handle.cast_const().cast());
    let target = if is_dlsym {
        let known = [next::dlsym(), next::of_libc()].map(|known| known as *mut c_void);
        match is_unbound || known.contains(&bound) {
            true => ours,
            false if object_of(bound) == Some(own_object()) => return,
            // The entry points to another library's definition, which ours cannot replace.
            false => ptr::null(),
        }
    } else {
        let real = match is_unbound {
            true => would_bind(handle, symbol),
            false => bound,
        };
        match registry::by_name(symbol, real.cast_const().cast()).cast() {
            unchanged if unchanged == real.cast_const() => return,
            target => target,
        }
    };
    // The binding is recorded before it is rebound: another thread may find it rebound at any time,
    // and then needs the record.
    if !is_unbound {
        record(object, symbol, !target.is_null());
    }
    if !target.is_null() && !object.write(entry, bound, target.cast_mut()) {
        record(object, symbol, false);
    }
}

/// Returns the definition to which a symbol of an object will be bound. The global scope is
/// searched first, and then the libraries loaded with the object.
fn would_bind(handle: *mut c_void, symbol: &CStr) -> *mut c_void {
    // SAFETY: the handle is a special one or belongs to a loaded object, and the name is a C
    // string.
    let look_up = |handle| unsafe { next::dlsym()(handle, symbol.as_ptr()) };
    let [global, local] = [libc::RTLD_DEFAULT, handle].map(look_up);
    if global.is_null() { local } else { global }
}

/// Records a binding that bypassed us, in place of an earlier record of the same binding.
fn record(object: &Object, symbol: &CStr, rebound: bool) {
    let mut state = state();
    state.now += 1;
    let found = Found {
        library: object.name.clone(),
        symbol: symbol.to_owned(),
        rebound,
        at: state.now,
    };
    let is_other = |it: &Found| it.library != found.library || it.symbol != found.symbol;
    state.found.retain(is_other);
    state.found.push(found);
}
