//! One interposer for a process: the copy of this crate whose `dlsym` comes first answers for all
//! others, which find it by its marker.
#![expect(unsafe_code, reason = "calls other copies of this crate")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::dlsym::Dlsym;
use crate::interface::{Reach, Refused, Registration};
use crate::{bindings, dlsym, flagging, registry};

/// What is reported to another copy: its list, a library, a symbol and a number.
type Report = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, u64);

/// What a copy of this crate does for others.
#[repr(C)]
pub(crate) struct Interposer {
    size: usize,
    register: unsafe extern "C" fn(*const Registration) -> u32,
    pub(crate) by_name: unsafe extern "C" fn(*const c_char, *const ()) -> *const (),
    pub(crate) by_address:
        unsafe extern "C" fn(*const c_char, *const (), *const c_char) -> *const (),
    pub(crate) bindings: unsafe extern "C" fn(usize, Report, *mut c_void) -> usize,
    pub(crate) unheard: unsafe extern "C" fn(Report, *mut c_void),
}

static OWN: Interposer = Interposer {
    size: size_of::<Interposer>(),
    register: take_in,
    by_name,
    by_address,
    bindings: tell_bindings,
    unheard: tell_unheard,
};

/// The name for which `dlsym` answers with the copy that it belongs to. No symbol has it. A change that
/// an older copy would not understand gets another name.
pub(crate) const MARKER: &CStr = c"gpu_leak_interpose_v1";

pub(crate) fn marker() -> *const c_void {
    (&raw const OWN).cast()
}

/// The copy that answers; null before it was looked for.
static SERVING: AtomicPtr<Interposer> = AtomicPtr::new(ptr::null_mut());

pub(crate) fn serving() -> &'static Interposer {
    // SAFETY: null, or static in an object that stays loaded.
    unsafe { SERVING.load(Ordering::Acquire).as_ref() }.unwrap_or(&OWN)
}

pub(crate) fn register(table: &'static Registration) -> Result<Reach, Refused> {
    dlsym::link();
    let (interposer, reach) = find();
    SERVING.store(ptr::from_ref(interposer).cast_mut(), Ordering::Release);
    registry::keep_loaded(dlsym::ours().cast());
    // SAFETY: the table is static, and in an object that stays loaded.
    match unsafe { (interposer.register)(table) } {
        0 => Ok(reach),
        1 => Err(Refused::NameTwice),
        2 => Err(Refused::TooMany),
        _ => Err(Refused::Unknown),
    }
}

/// The copy that answers for the process, and what it hears.
fn find() -> (&'static Interposer, Reach) {
    // SAFETY: asks for a C string in what is loaded for all.
    let first = unsafe { dlsym::of_libc()(libc::RTLD_DEFAULT, c"dlsym".as_ptr()) };
    if !first.is_null() && dlsym::object_of(first) == dlsym::own_object() {
        return (&OWN, Reach::EveryLookup);
    }
    // SAFETY: null is none, and else it is the function of this name; who answers the marker gives a
    // copy, in an object that stays loaded.
    let found = unsafe {
        let first = std::mem::transmute::<*mut c_void, Option<Dlsym>>(first);
        let found = first.map(|first| first(libc::RTLD_DEFAULT, MARKER.as_ptr()));
        found.and_then(|found| found.cast::<Interposer>().as_ref())
    };
    match found {
        Some(serving) => (serving, Reach::EveryLookup),
        None => (&OWN, Reach::ReboundOnly),
    }
}

unsafe extern "C" fn take_in(table: *const Registration) -> u32 {
    // SAFETY: `register` of some copy gives a static table.
    match registry::register(unsafe { &*table }) {
        Ok(()) => 0,
        Err(Refused::NameTwice) => 1,
        Err(Refused::TooMany) => 2,
        Err(Refused::Unknown) => 3,
    }
}

unsafe extern "C" fn by_name(name: *const c_char, real: *const ()) -> *const () {
    // SAFETY: the other copy gives a C string.
    registry::by_name(unsafe { CStr::from_ptr(name) }, real)
}

unsafe extern "C" fn by_address(
    name: *const c_char,
    real: *const (),
    fallback: *const c_char,
) -> *const () {
    // SAFETY: the other copy gives C strings, the second of which may be null.
    let (name, fallback) = unsafe {
        let fallback = (!fallback.is_null()).then(|| CStr::from_ptr(fallback));
        (CStr::from_ptr(name), fallback)
    };
    registry::by_address(name, real, fallback)
}

unsafe extern "C" fn tell_bindings(since: usize, report: Report, list: *mut c_void) -> usize {
    bindings::past_us(since, |library, symbol, rebound| {
        // SAFETY: the other copy's function, with the list that it came with.
        unsafe { report(list, library.as_ptr(), symbol.as_ptr(), u64::from(rebound)) };
    })
}

unsafe extern "C" fn tell_unheard(report: Report, list: *mut c_void) {
    flagging::unheard_calls(|name, calls| {
        // SAFETY: the other copy's function, with the list that it came with.
        unsafe { report(list, c"".as_ptr(), name.as_ptr(), calls) };
    });
}

/// What was reported: library, symbol and number.
pub(crate) type Reported = Vec<(String, String, u64)>;

/// The [`Report`] of this copy, whose list is a [`Reported`].
pub(crate) unsafe extern "C" fn collect(
    list: *mut c_void,
    library: *const c_char,
    symbol: *const c_char,
    number: u64,
) {
    // SAFETY: the serving copy gives the list back that it was given, and C strings.
    let (list, library, symbol) = unsafe {
        let list = &mut *list.cast::<Reported>();
        (list, CStr::from_ptr(library), CStr::from_ptr(symbol))
    };
    let [library, symbol] = [library, symbol].map(|it| it.to_string_lossy().into_owned());
    list.push((library, symbol, number));
}
