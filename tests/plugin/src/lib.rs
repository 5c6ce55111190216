//! A plugin with its own copy of gpu-leak-check. A checked program that loads the plugin contains a
//! second harness, of this or another version.

#![expect(unsafe_code, reason = "exports symbols")]

use gpu_leak_check::Scope;
use gpu_leak_check::report::Code;
use gpu_leak_check::report::check_report::CheckStatus;

/// The plugin's harness does not intercept the driver, because the driver was loaded first.
pub const HEARS_NOTHING: u32 = 1;
/// The plugin's harness intercepts the driver.
pub const HEARS: u32 = 2;
/// The plugin's check had any other result.
pub const OTHER: u32 = 0;

/// Finishes a scope in which one thread has run, and returns what the plugin's harness could see.
#[unsafe(no_mangle)]
pub extern "C" fn fake_plugin_checks() -> u32 {
    let scope = Scope::open("in the plugin");
    let worker = scope.in_scope(|| std::thread::spawn(|| ()));
    let has_run = worker.join().is_ok();
    let report = scope.finish();
    let reason = report.reason.as_ref().map(|reason| reason.code);
    match (report.status, reason) {
        (CheckStatus::NotMeasured, Some(Code::Unheard)) if has_run => HEARS_NOTHING,
        (CheckStatus::Clean, None) if has_run => HEARS,
        _ => OTHER,
    }
}

/// Runs `work` on a thread that this library starts, and waits for the thread. Returns whether the
/// thread ended normally.
#[unsafe(no_mangle)]
pub extern "C" fn fake_plugin_runs(work: extern "C" fn()) -> bool {
    let thread = std::thread::Builder::new().name("the plugin's".to_owned());
    let worker = thread.spawn(move || work());
    worker.is_ok_and(|worker| worker.join().is_ok())
}
