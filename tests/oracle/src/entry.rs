//! What the oracle does at the start of the program, when the driver is initialised, and at the end
//! of the program.

#![expect(
    unsafe_code,
    reason = "the loader calls functions in sections, and the driver is called by name"
)]

use std::env;
use std::ffi::{c_int, c_void};
use std::fs::OpenOptions;
use std::io::Write;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use gpu_leak_check::__inject::{before_initialisation, on_every_event};

use crate::compare::{self, Account};
use crate::fact::Fact;
use crate::{cupti, heard};

static HEARD: Mutex<Account> = Mutex::new(Account {
    running: Vec::new(),
    exiting: Vec::new(),
});
static CUPTI: Mutex<Account> = Mutex::new(Account {
    running: Vec::new(),
    exiting: Vec::new(),
});
static EXITING: AtomicBool = AtomicBool::new(false);
/// The version of CUPTI, or the reason why it cannot be used.
static SOURCE: OnceLock<Result<String, String>> = OnceLock::new();

// SAFETY: the loader calls each entry in this section once, without arguments. This function only
// writes to a static.
#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = first;

extern "C" fn first() {
    before_initialisation(begin);
}

// SAFETY: the loader calls each entry in this section once, without arguments, when the process
// exits.
#[used]
#[unsafe(link_section = ".fini_array")]
static NEARLY_LAST: extern "C" fn() = nearly_last;

unsafe extern "C" {
    fn __cxa_atexit(
        handler: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *const c_void,
    ) -> c_int;
}

extern "C" fn nearly_last() {
    // Runs after the destructors of all libraries, because those of the CUDA runtime call the
    // driver. SAFETY: the handler ignores its argument, and this library stays loaded.
    unsafe { __cxa_atexit(last, std::ptr::null_mut(), std::ptr::null()) };
}

extern "C" fn exit_begins() {
    EXITING.store(true, Ordering::Relaxed);
}

/// Begins to record from both sources. Called on the thread that is about to initialise the driver.
fn begin() {
    // CUPTI needs an initialised driver. No watched call happens before the subscription. SAFETY:
    // the driver is loaded, and its `cuInit` has this signature.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if !library.is_null() {
            let initialise = libc::dlsym(library, c"cuInit".as_ptr());
            if !initialise.is_null() {
                mem::transmute::<*mut c_void, unsafe extern "C" fn(u32) -> u32>(initialise)(0);
            }
        }
        libc::atexit(exit_begins);
    }
    let source = cupti::subscribe(|fact| take(&CUPTI, fact));
    let is_there = source.is_ok();
    if SOURCE.set(source).is_ok() && is_there {
        on_every_event(|event, answer| {
            if let Some(fact) = heard::fact(event, answer) {
                take(&HEARD, fact);
            }
        });
    }
}

fn take(account: &Mutex<Account>, fact: Fact) {
    let mut account = account.lock().unwrap_or_else(PoisonError::into_inner);
    match EXITING.load(Ordering::Relaxed) {
        true => account.exiting.push(fact),
        false => account.running.push(fact),
    }
}

extern "C" fn last(_: *mut c_void) {
    let Some(source) = SOURCE.get() else {
        return;
    };
    let program = env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    let text = match source {
        Ok(source) => {
            let heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
            let cupti = CUPTI.lock().unwrap_or_else(PoisonError::into_inner);
            compare::rendered(&program, source, &heard, &cupti)
        }
        Err(why) => format!("| {program} | not compared: {why} |\n"),
    };
    // The write fails only if standard error no longer has a reader.
    let _ = std::io::stderr().write_all(text.as_bytes());
    if let Some(path) = env::var_os("GPU_LEAK_ORACLE_OUTPUT")
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = file.write_all(text.as_bytes());
    }
}
