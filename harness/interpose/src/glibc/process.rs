//! The interface between a harness and the interposer of its process: the copy of this crate whose
//! `dlsym` comes first serves all others, which find it by its marker.
#![expect(unsafe_code, reason = "calls other copies of this crate")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::dlsym::Dlsym;
use super::{bindings, dlsym, flagging, objects, registry};
use crate::interface::{
    BindingPastUs, BindingsPastUs, Reach, Registration, UnheardCalls, function,
};

/// Passes a result to another copy: its receiver, a library, a symbol and a number.
type Report = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, u64);
/// Receives these.
type Receiver<'a> = &'a mut dyn FnMut(String, String, u64);

/// The functions that a copy of this crate provides to others.
#[repr(C)]
struct Interposer {
    size: usize,
    /// Returns 0 if the table was accepted.
    register: unsafe extern "C" fn(*const Registration) -> u32,
    wrapper: unsafe extern "C" fn(*const c_char, *const (), *const c_char) -> *const (),
    bindings: unsafe extern "C" fn(usize, Report, *mut c_void) -> usize,
    unheard: unsafe extern "C" fn(Report, *mut c_void),
}

static OWN: Interposer = Interposer {
    size: size_of::<Interposer>(),
    register: accept,
    wrapper,
    bindings: report_bindings,
    unheard: report_unheard,
};

/// The name for which `dlsym` returns the copy to which it belongs. No symbol has this name. A
/// change that an older copy would not understand gets a new name.
pub(crate) const MARKER: &CStr = c"gpu_leak_interpose_v1";

pub(crate) fn marker() -> *const c_void {
    (&raw const OWN).cast()
}

/// The copy that serves the process; null before it was looked up.
static SERVING: AtomicPtr<Interposer> = AtomicPtr::new(ptr::null_mut());

fn serving() -> &'static Interposer {
    // SAFETY: null, or static in an object that stays loaded.
    unsafe { SERVING.load(Ordering::Acquire).as_ref() }.unwrap_or(&OWN)
}

/// Whether this copy serves the process.
pub(crate) fn is_serving() -> bool {
    ptr::eq(serving(), &OWN)
}

/// Makes look-ups of the table's functions return their wrappers from now on, for the life of the
/// process. Call it once per table, preferably in a constructor: earlier look-ups are not
/// intercepted.
pub fn register(table: &'static Registration) -> Reach {
    dlsym::link();
    let (interposer, reach) = find();
    SERVING.store(ptr::from_ref(interposer).cast_mut(), Ordering::Release);
    registry::keep_loaded(dlsym::ours().cast());
    // SAFETY: the table is static, and in an object that stays loaded.
    match unsafe { (interposer.register)(table) } {
        0 => reach,
        _ => Reach::Nothing,
    }
}

/// Returns the copy that serves the process, and what it intercepts.
fn find() -> (&'static Interposer, Reach) {
    // SAFETY: looks up a C string in the global scope.
    let first = unsafe { dlsym::of_libc()(libc::RTLD_DEFAULT, c"dlsym".as_ptr()) };
    if !first.is_null() && dlsym::object_of(first) == dlsym::own_object() {
        return (&OWN, Reach::EveryLookup);
    }
    // SAFETY: the function has this name; its answer to the marker is a copy in an object that stays
    // loaded.
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

unsafe extern "C" fn accept(table: *const Registration) -> u32 {
    // SAFETY: `register` of some copy passes a static table.
    u32::from(!registry::register(unsafe { &*table }))
}

/// Returns what to hand out if a name stands for several functions, as in `cuGetProcAddress`: the
/// wrapper of the row of `name` or a variant of it that is exported at `real`, in the library that
/// contains `real`. If there is none, the row is that of `fallback`: the variant that headers give
/// for the requested version. A function that counts calls is returned if the wrapper forwards to
/// another function of that name, or if only variants of the name are known; otherwise `real`.
///
/// # Safety
///
/// `real` is the function that `cuGetProcAddress` or the like has returned for `name`, with the
/// signature of `fallback`: wrappers call it from now on.
#[must_use]
pub unsafe fn wrapper_by_address(
    name: &CStr,
    real: *const (),
    fallback: Option<&CStr>,
) -> *const () {
    let fallback = fallback.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: C strings, the second of which may be null, and the caller keeps the contract.
    unsafe { (serving().wrapper)(name.as_ptr(), real, fallback) }
}

unsafe extern "C" fn wrapper(
    name: *const c_char,
    real: *const (),
    fallback: *const c_char,
) -> *const () {
    // SAFETY: the other copy passes C strings, the second of which may be null.
    let (name, fallback) = unsafe {
        let fallback = (!fallback.is_null()).then(|| CStr::from_ptr(fallback));
        (CStr::from_ptr(name), fallback)
    };
    registry::by_address(name, real, fallback)
}

/// Returns the result of the real `dlsym`, for the harness's own calls, which must not be
/// intercepted.
///
/// # Safety
///
/// `handle` is a handle of `dlopen`, or one that `dlsym` accepts in its place.
#[must_use]
pub unsafe fn real_symbol(handle: *mut c_void, name: &CStr) -> *const () {
    // SAFETY: the caller keeps the contract; the name is a C string.
    let found = unsafe { dlsym::next()(handle, name.as_ptr()) };
    found.cast_const().cast()
}

/// Rebinds what was loaded since the last call, so that calls to `dlsym` and to functions of a
/// table reach us. Returns what had bypassed us since `since`, or nothing for [`usize::MAX`].
///
/// It is cheap while nothing is loaded. Earlier calls that bypassed us have not been intercepted.
#[must_use]
pub fn bindings_past_us(since: usize) -> BindingsPastUs {
    let mut found = Vec::new();
    let mut receiver: Receiver<'_> = &mut |library, symbol, rebound| {
        let rebound = rebound != 0;
        found.push(BindingPastUs {
            library,
            symbol,
            rebound,
        });
    };
    // SAFETY: `receive` gets the receiver that it expects.
    let now = unsafe { (serving().bindings)(since, receive, (&raw mut receiver).cast()) };
    BindingsPastUs { now, found }
}

unsafe extern "C" fn report_bindings(since: usize, report: Report, receiver: *mut c_void) -> usize {
    bindings::past_us(since, reporter(report, receiver))
}

/// Returns the calls to watched functions without a wrapper: variants that no table has, or
/// functions of a second driver. Each check compares them with those at its beginning.
#[must_use]
pub fn unheard_calls() -> Vec<UnheardCalls> {
    let mut called = Vec::new();
    let mut receiver: Receiver<'_> =
        &mut |_, name, calls| called.push(UnheardCalls { name, calls });
    // SAFETY: `receive` gets the receiver that it expects.
    unsafe { (serving().unheard)(receive, (&raw mut receiver).cast()) };
    called
}

unsafe extern "C" fn report_unheard(report: Report, receiver: *mut c_void) {
    flagging::unheard_calls(reporter(report, receiver));
}

/// Passes library, symbol and number to another copy.
fn reporter(report: Report, receiver: *mut c_void) -> impl Fn(&CStr, &CStr, u64) {
    // SAFETY: the other copy's function, with its receiver.
    move |library, symbol, number| unsafe {
        report(receiver, library.as_ptr(), symbol.as_ptr(), number);
    }
}

/// The [`Report`] of this copy: passes library, symbol and number to a [`Receiver`].
unsafe extern "C" fn receive(
    receiver: *mut c_void,
    library: *const c_char,
    symbol: *const c_char,
    number: u64,
) {
    // SAFETY: the serving copy passes back the receiver that it was given, and C strings.
    let (receiver, [library, symbol]) = unsafe {
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        let receiver = &mut *receiver.cast::<Receiver<'_>>();
        (receiver, [library, symbol].map(text))
    };
    receiver(library, symbol, number);
}

/// Returns the files loaded into other namespaces, by `dlmopen` or for `LD_AUDIT`. They have their
/// own C library and perhaps their own driver, whose calls are not intercepted. Empty before glibc
/// 2.35, which does not list them.
#[must_use]
pub fn libraries_elsewhere() -> Vec<String> {
    objects::elsewhere()
}
