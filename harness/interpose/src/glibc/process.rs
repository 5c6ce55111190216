//! The interface between a harness and the interposer of its process. The copy of this crate whose
//! `dlsym` comes first in the lookup order serves all other copies, which find it by its marker.
#![expect(unsafe_code, reason = "calls functions of other copies of this crate")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::dlsym::{self, Interposer, MARKER, OWN};
use super::next::{self, Dlsym};
use super::{dlclose, registry};
use crate::interface::{BindingPastUs, BindingsPastUs, MissedCalls, Reach, Registration, function};

/// The copy that serves the process, and which look-ups it intercepts. Set when the first table is
/// registered.
static SERVING: OnceLock<(&Interposer, Reach)> = OnceLock::new();

fn serving() -> &'static Interposer {
    SERVING.get().map_or(&OWN, |(serving, _)| serving)
}

pub(crate) fn is_serving() -> bool {
    ptr::eq(serving(), &OWN)
}

/// Registers a table: from now on, for the life of the process, look-ups of its functions return
/// their wrappers. Call this once per table, preferably in a constructor, because earlier look-ups
/// are not intercepted.
pub fn register(table: &'static Registration) -> Reach {
    dlsym::link();
    dlclose::link();
    // This is called before `get_or_init`, because a thread that waits there may hold locks of the
    // loader.
    let found = find();
    let (interposer, reach) = SERVING.get_or_init(|| found);
    registry::keep_loaded(dlsym::ours().cast());
    // SAFETY: the table is static, and the object that contains it stays loaded.
    match unsafe { (interposer.register)(table) } {
        0 => *reach,
        _ => Reach::Nothing,
    }
}

/// Returns the copy that serves the process, and which look-ups it intercepts.
fn find() -> (&'static Interposer, Reach) {
    // SAFETY: the call looks up a C string in the global scope.
    let first = unsafe { next::of_libc()(libc::RTLD_DEFAULT, c"dlsym".as_ptr()) };
    // SAFETY: the name identifies a function of this type. For the marker, that function returns
    // null or the address of an `Interposer` in an object that stays loaded.
    let found = unsafe {
        let first: Option<Dlsym> = function(first);
        let found = first.map(|first| first(libc::RTLD_DEFAULT, MARKER.as_ptr()));
        found.and_then(|found| found.cast::<Interposer>().as_ref())
    };
    match found {
        Some(serving) => (serving, Reach::EveryLookup),
        None => (&OWN, Reach::ReboundOnly),
    }
}

/// Returns the address to hand out if a name refers to several functions, as in `cuGetProcAddress`.
///
/// First, a row is chosen from the rows of `name` and of its variants: the one whose name is
/// exported, at the address `real`, by the library that contains `real`. If there is no such row,
/// the row of `fallback` is chosen, which is the variant that headers give for the requested
/// version. The result is the wrapper of the chosen row. If that wrapper forwards to another
/// function of the same name, or if only other variants of the name are known, the result is a
/// function that counts calls. In all other cases, the result is `real`.
///
/// # Safety
///
/// `real` is the function that `cuGetProcAddress` or a similar function has returned for `name`. It
/// has the signature of `fallback`, because wrappers call it from now on.
pub unsafe fn wrapper_by_address(
    name: &CStr,
    real: *const (),
    fallback: Option<&CStr>,
) -> *const () {
    let fallback = fallback.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: both names are C strings, the second of which may be null, and the caller upholds the
    // contract.
    unsafe { (serving().wrapper)(name.as_ptr(), real, fallback) }
}

/// Rebinds libraries loaded since the last call, so that their calls to `dlsym` and to functions of
/// a table reach us. Returns the bindings found after `since` that bypassed us, or none for
/// [`usize::MAX`].
///
/// This is cheap as long as no library has been loaded. Calls that bypassed us before the rebinding
/// have not been intercepted.
pub fn bindings_past_us(since: usize) -> BindingsPastUs {
    let mut reported = Reported::new();
    // SAFETY: `receive` is called only during this call, and gets a pointer to the list that it
    // expects.
    let now = unsafe { (serving().bindings)(since, receive, (&raw mut reported).cast()) };
    let binding = |(library, symbol, rebound)| BindingPastUs {
        library,
        symbol,
        rebound: rebound != 0,
    };
    let found = reported.into_iter().map(binding).collect();
    BindingsPastUs { now, found }
}

/// Returns how often watched functions without a wrapper were called: variants that are in no
/// table, and functions of a second driver. Each check compares these numbers with those at its
/// beginning.
pub fn missed_calls() -> Vec<MissedCalls> {
    let mut reported = Reported::new();
    // SAFETY: `receive` is called only during this call, and gets a pointer to the list that it
    // expects.
    unsafe { (serving().missed)(receive, (&raw mut reported).cast()) };
    let calls = |(_, name, calls)| MissedCalls { name, calls };
    reported.into_iter().map(calls).collect()
}

/// What the serving copy reports: for each entry, a library, a symbol and a number.
type Reported = Vec<(String, String, u64)>;

/// Adds a library, a symbol and a number to a [`Reported`].
unsafe extern "C" fn receive(
    reported: *mut c_void,
    library: *const c_char,
    symbol: *const c_char,
    number: u64,
) {
    // SAFETY: the serving copy passes back the list that it was given, and both names are C
    // strings.
    unsafe {
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        let reported = &mut *reported.cast::<Reported>();
        reported.push((text(library), text(symbol), number));
    }
}
